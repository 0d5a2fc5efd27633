"""More rows than memory: Parquet, CSV and SVMlight files in chunks. How they are summed is not decided here."""

from corank.scans.chunks import Chunk
from corank.scans.opening import scan, with_extra
from corank.scans.scanning import Scan

__all__ = ["Chunk", "Scan", "scan", "with_extra"]
