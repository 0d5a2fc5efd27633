"""Tables on disk and in memory: read, write, pick a column as scores or as query labels.

Every kind of table becomes a `pyarrow.Table`. How its columns become features is the subject of `encoder`.
"""

from corank.tables.columns import (
    LARGEST,
    MISSING,
    TableError,
    check_unique,
    column,
    column_names,
    is_number,
    is_text,
    number,
    numbers,
    parsed,
    plain,
    plain_type,
    query_column,
    score_column,
    to_arrow,
)
from corank.tables.read import (
    FORMATS,
    SVMLIGHT,
    ending_of,
    format_of_file,
    is_svmlight,
    is_table_name,
    kind_of_file,
    read_table,
    with_zeros,
)
from corank.tables.write import cast_like, check_target, replacing, spreadsheet_safe, write_table, write_to

__all__ = [
    "FORMATS",
    "LARGEST",
    "MISSING",
    "SVMLIGHT",
    "TableError",
    "cast_like",
    "check_target",
    "check_unique",
    "column",
    "column_names",
    "ending_of",
    "format_of_file",
    "is_number",
    "is_svmlight",
    "is_table_name",
    "is_text",
    "kind_of_file",
    "number",
    "numbers",
    "parsed",
    "plain",
    "plain_type",
    "query_column",
    "read_table",
    "replacing",
    "score_column",
    "spreadsheet_safe",
    "to_arrow",
    "with_zeros",
    "write_table",
    "write_to",
]
