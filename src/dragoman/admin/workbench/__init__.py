"""The workbench: what becomes of a request in each protocol, and what is said when it is sent."""
