"""More rows than memory: Parquet, CSV and SVMlight files in chunks. How they are summed is not
decided here.
"""

from corank.streaming.chunks import Chunk
from corank.streaming.dask import collection_scan as collection_scan
from corank.streaming.models import ScannedProblem as ScannedProblem
from corank.streaming.models import ScannedRows as ScannedRows
from corank.streaming.models import SummedRows as SummedRows
from corank.streaming.models import SurveyedScan as SurveyedScan
from corank.streaming.models import explained_score as explained_score
from corank.streaming.models import order_score as order_score
from corank.streaming.models import passing as passing
from corank.streaming.models import predict_scan as predict_scan
from corank.streaming.models import write_predictions as write_predictions
from corank.streaming.scan import Scan, scan, with_extra

__all__ = ["Chunk", "Scan", "scan", "with_extra"]
