"""Names that the documentation gave before a package was a capability. Programs that import them keep working; new ones import the homes.

`ottla.core.assignors` is `ottla.groups.assignors`, `ottla.core.model` is `ottla.protocol.model` and `ottla.groups.events`,
`ottla.core.client.fetch_values` is `ottla.client.fetch.fetch_values`, `ottla.core.diagnosis.advice` is `ottla.history.advice`.
"""
