"""The neutral conversation: what all protocols say, in the form of none of them.

Readers of a protocol package turn wire bytes into these types, writers turn these types into
wire bytes. Nothing here performs I/O, knows of asyncio, or names a protocol's wire format.
"""
