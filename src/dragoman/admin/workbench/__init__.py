"""The workbench: a request in each protocol, and how it is answered when it is sent."""
