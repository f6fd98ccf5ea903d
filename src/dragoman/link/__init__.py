"""The link between a borrower and the owner of what is counted or decided together.

Workers borrow from the process that started them, over a Unix socket; where there is one process,
it is borrower and owner, and messages are calls. Both ends send the same two kinds of message: a
`Question`, which is answered, and a `Notice`, which is not. See `dragoman.link.owner` for the
owner's side and `dragoman.link.peers` for what both sides do with the other one.
"""
