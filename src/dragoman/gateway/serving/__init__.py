"""One request on its way: where it leads, with which account, and what comes back."""
