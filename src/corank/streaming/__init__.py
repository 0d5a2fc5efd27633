"""More rows than memory: Parquet, CSV and SVMlight files in chunks. How they are summed is not
decided here.
"""

from corank.streaming.chunks import Chunk
from corank.streaming.scan import Scan, scan, with_extra

__all__ = ["Chunk", "Scan", "scan", "with_extra"]
