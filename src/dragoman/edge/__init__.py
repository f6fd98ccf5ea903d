"""Where bytes come in and go out: connections, requests as they came, answers as they leave."""
