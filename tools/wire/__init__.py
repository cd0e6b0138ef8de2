"""Codec stages and their messages, made from docs/wire.md alone: nothing of the C++ code is used here."""
