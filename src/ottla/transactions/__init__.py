"""Transactions as the second kind of coordinator (KIP-98, KIP-890): producers by transactional id, and how their transactions end."""
