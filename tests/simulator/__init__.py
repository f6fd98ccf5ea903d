"""The simulator, judged by the vendors' SDKs and by the grammars of the three protocols."""
