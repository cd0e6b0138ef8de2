"""Codec stages and their messages, implemented from docs/wire alone, without any of the C++ code."""
