"""What an administrator can do, described once in a table of operations.

`table` has all operations on the store; `operation` and `inputs` say what one is and how its input
is read; modules that end in `_service` change the store. Routes, commands and the OpenAPI document
are made from the table.
"""
