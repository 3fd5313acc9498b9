"""The on-disk format of an archive: its only writer and its only reader."""
