"""`ottla.client.fetch.fetch_values` by its former name."""

from ottla.client.fetch.fetch_values import FetchRange as FetchRange
