"""The story of a group: everything that a page shows of it, decided and worded here, as one document. Pages and terminals only draw it."""
