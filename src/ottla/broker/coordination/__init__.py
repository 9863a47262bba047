"""Coordinators on the event loop: started, loaded, moved and resigned; requests find them; what groups alone need of the broker."""
