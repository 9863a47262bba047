"""What a group would have done with other settings: its recorded behaviour, replayed through the group coordinator in virtual time.

`reconstruction` turns evidence into behaviour (who came, left, fell silent, polled late), `replay` runs it, `comparison` sets two runs side
by side, `search` looks for settings. It stands above `groups`, which it runs, and `diagnosis`, whose evidence it reads.
"""
