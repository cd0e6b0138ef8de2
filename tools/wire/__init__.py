"""Codec stages and their messages, made from docs/wire alone: nothing of the C++ code is used here."""
