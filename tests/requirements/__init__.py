"""The requirements of docs/requirements.md, each shown from the outside: a request or an answer
goes in as one protocol and comes out as another, or bytes go over a real socket.
"""
