"""Compares two versions of dragoman: the same requests and upstream answers, then every difference.

``python -m tools.differential --old DIR_OR_WHEEL --new DIR`` shows, grouped, where the new version
differs from the old one in what it sends, answers, reports as lost, logs and counts. It knows both
by their public faces only: the library call, the command line, HTTP and the configuration file. So
modules can be moved and renamed between the two versions.

Translations come from the tests (`corpus`), damaged streams from a seed (`damage`); they are run
through the library call of both versions (`library`), and with further requests (`requests`)
through two gateways (`gateways`) whose upstreams replay the same answers (`replay`).
"""
