/* parquet.h -- the numbers of Parquet that its writer and its reader share.
 *
 * A file is "PAR1", pages, the footer (thrift's compact protocol), its length and "PAR1". Names and
 * numbers are those of the format's parquet.thrift. */
#ifndef FORMAT_PARQUET_H
#define FORMAT_PARQUET_H

#define PARQUET_MAGIC "PAR1"
#define PARQUET_MAGIC_SEALED "PARE" /* with an encrypted footer */
#define PARQUET_TAIL 8              /* length of the footer, and the magic */

enum parquet_type {
    PARQUET_BOOLEAN = 0,
    PARQUET_INT32 = 1,
    PARQUET_INT64 = 2,
    PARQUET_INT96 = 3,
    PARQUET_FLOAT = 4,
    PARQUET_DOUBLE = 5,
    PARQUET_BYTE_ARRAY = 6,
    PARQUET_FIXED = 7,
};

enum parquet_repetition { PARQUET_REQUIRED = 0, PARQUET_OPTIONAL = 1, PARQUET_REPEATED = 2 };

/* What the reader looks at of the older way to say what a type means. */
enum parquet_converted {
    PARQUET_UTF8 = 0,
    PARQUET_DECIMAL = 5,
    PARQUET_TIME_MILLIS = 7,
    PARQUET_TIME_MICROS = 8,
    PARQUET_TIMESTAMP_MILLIS = 9,
    PARQUET_TIMESTAMP_MICROS = 10,
    PARQUET_UINT_8 = 11,
    PARQUET_UINT_16 = 12,
    PARQUET_UINT_32 = 13,
    PARQUET_UINT_64 = 14,
};

/* Ids within the union LogicalType. */
enum parquet_logical {
    PARQUET_LOGICAL_STRING = 1,
    PARQUET_LOGICAL_DECIMAL = 5,
    PARQUET_LOGICAL_TIME = 7,
    PARQUET_LOGICAL_TIMESTAMP = 8,
    PARQUET_LOGICAL_INTEGER = 10,
};
enum parquet_unit { PARQUET_MILLIS = 1, PARQUET_MICROS = 2, PARQUET_NANOS = 3 };

enum parquet_encoding {
    PARQUET_PLAIN = 0,
    PARQUET_PLAIN_DICTIONARY = 2,
    PARQUET_RLE = 3,
    PARQUET_BIT_PACKED = 4,
    PARQUET_DELTA_BINARY_PACKED = 5,
    PARQUET_DELTA_LENGTH_BYTE_ARRAY = 6,
    PARQUET_DELTA_BYTE_ARRAY = 7,
    PARQUET_RLE_DICTIONARY = 8,
    PARQUET_BYTE_STREAM_SPLIT = 9,
};

enum parquet_codec {
    PARQUET_UNCOMPRESSED = 0,
    PARQUET_SNAPPY = 1,
    PARQUET_GZIP = 2,
    PARQUET_LZO = 3,
    PARQUET_BROTLI = 4,
    PARQUET_LZ4 = 5,
    PARQUET_ZSTD = 6,
    PARQUET_LZ4_RAW = 7,
};

enum parquet_page {
    PARQUET_DATA_PAGE = 0,
    PARQUET_INDEX_PAGE = 1,
    PARQUET_DICTIONARY_PAGE = 2,
    PARQUET_DATA_PAGE_V2 = 3,
};

/* A track that holds what overlaps on another one says so in a column that the table itself does
 * not have. */
#define PARQUET_OVERLAP_COLUMN "overlap_of"
/* Facts of a file about itself, in its footer. */
#define PARQUET_KEY_TABLE "opmeter.table"
/* What stands for NULL in the name of a folder, as Hive has it. */
#define PARQUET_NULL_FOLDER "__HIVE_DEFAULT_PARTITION__"

#endif
