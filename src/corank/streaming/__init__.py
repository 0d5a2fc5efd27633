"""More rows than memory: Parquet, CSV and SVMlight files in chunks. How they are summed is not
decided here.
"""

from corank.streaming.chunks import Chunk
from corank.streaming.dask import collection_scan as collection_scan
from corank.streaming.fits import fit_scans as fit_scans
from corank.streaming.fits import parts_apart as parts_apart
from corank.streaming.predictions import explained_score as explained_score
from corank.streaming.predictions import order_score as order_score
from corank.streaming.predictions import predict_scan as predict_scan
from corank.streaming.predictions import write_predictions as write_predictions
from corank.streaming.scan import Scan, scan, with_extra

__all__ = ["Chunk", "Scan", "scan", "with_extra"]
