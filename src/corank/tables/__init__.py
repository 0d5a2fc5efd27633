"""Tables on disk and in memory: read, write, pick a column as scores or as query labels.

Every kind of table becomes one, a `pyarrow.Table`. How its columns become features is the business of `encoder`.
"""

from corank.tables.columns import (
    LARGEST,
    MISSING,
    TableError,
    column,
    column_names,
    is_number,
    is_text,
    near_names,
    number,
    numbers,
    parsed,
    plain,
    plain_type,
    query_column,
    score_column,
    to_arrow,
)
from corank.tables.kinds import (
    FORMATS,
    PARQUET,
    SEPARATORS,
    SVMLIGHT,
    ending_of,
    is_svmlight,
    is_table_name,
    kind_of_file,
)
from corank.tables.reading import csv_layout, read_table
from corank.tables.svmlight import with_zeros
from corank.tables.writing import check_target, pieces_to, replacing, write_table, write_to

__all__ = [
    "FORMATS",
    "LARGEST",
    "MISSING",
    "PARQUET",
    "SEPARATORS",
    "SVMLIGHT",
    "TableError",
    "check_target",
    "column",
    "column_names",
    "csv_layout",
    "ending_of",
    "is_number",
    "is_svmlight",
    "is_table_name",
    "is_text",
    "kind_of_file",
    "near_names",
    "number",
    "numbers",
    "parsed",
    "pieces_to",
    "plain",
    "plain_type",
    "query_column",
    "read_table",
    "replacing",
    "score_column",
    "to_arrow",
    "with_zeros",
    "write_table",
    "write_to",
]
