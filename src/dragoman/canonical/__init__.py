"""The neutral conversation: one model for the content of all protocols, in the form of none.

Readers of a protocol package turn wire bytes into these types, writers turn these types into
wire bytes. Nothing here performs I/O, knows of asyncio, or names a protocol's wire format.
"""
