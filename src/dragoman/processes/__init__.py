"""The processes of a gateway: who listens, who serves, who watches, and how one follows another."""
