/* format.h -- the .opm file and its live buffer file; docs/format.md is the normative text.
 *
 * Shared by the writer (rec/) and the reader (import/opm*.c). Everything is little-endian, every
 * number appears in the file as it stands here: append, never renumber. */
#ifndef FORMAT_FORMAT_H
#define FORMAT_FORMAT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define OPM_FILE_MAGIC "opmeter\n"
#define OPM_LIVE_MAGIC "opmlive\n"
#define OPM_FORMAT_VERSION 2u       /* the newest that is read; files with tables have it */
#define OPM_RECORDING_VERSION 1u    /* what the recorder writes */
#define OPM_CHUNK_MAGIC 0x4b4e4843u /* "CHNK" */

enum opm_clock_source { CLOCK_SOURCE_MONOTONIC = 1, CLOCK_SOURCE_TSC = 2, CLOCK_SOURCE_CNTVCT = 3 };

/* One reading of all clocks at (nearly) one moment. */
struct opm_calibration {
    uint64_t ticks;
    int64_t monotonic_ns;
    int64_t realtime_ns;
};
static_assert(sizeof(struct opm_calibration) == 24, "file format");

/* Head of an .opm file. `crc` covers the bytes before it. */
struct opm_file_header {
    char magic[8];
    uint32_t version;
    uint32_t header_size; /* bytes up to the first chunk: header and status */
    uint8_t session[16];  /* random; the live file carries the same */
    uint8_t boot[16];     /* kernel boot id: equal ones share CLOCK_MONOTONIC; zero if unknown */
    uint32_t clock_source;
    uint32_t pid;
    struct opm_calibration start;
    uint64_t ticks_per_s; /* estimate when starting; calibration chunks are better */
    uint32_t flags;       /* 0 */
    uint32_t crc;
};
static_assert(sizeof(struct opm_file_header) == 96, "file format");

enum opm_file_state { FILE_RECORDING = 1, FILE_CLOSED = 2 };

/* Follows the header and is rewritten in place: its bytes are allocated from the start, so it can
 * say what was lost even when the disk is full. */
struct opm_file_status {
    uint32_t state;        /* enum opm_file_state */
    uint32_t write_errno;  /* first failure to write, as errno */
    uint64_t lost;         /* spans that were dropped; of older recorders, all events */
    uint64_t lost_no_room; /* spans of threads that got no slot */
    uint64_t unbalanced_ends;
    uint64_t closed_by_parent;
    struct opm_calibration last; /* taken when this was written */
    uint32_t reserved;
    uint32_t crc;
};
static_assert(sizeof(struct opm_file_status) == 72, "file format");

/* Follows the status and is rewritten with it. Zeros: an older recorder. */
struct opm_file_losses {
    uint64_t lost_other; /* arguments, counters, arrows and definitions that were dropped */
    uint32_t not_known;  /* 1: more was lost, and it is not known how much */
    uint32_t crc;        /* of the bytes before it */
};
static_assert(sizeof(struct opm_file_losses) == 16, "file format");

#define OPM_HEADER_SIZE 256u /* header, status, losses, zeros */

enum opm_chunk_kind {
    CHUNK_DEFS = 1,   /* items: definitions, strings, calibrations */
    CHUNK_EVENTS = 2, /* encoded units of one thread, below */
    CHUNK_END = 3,    /* nothing follows: the recording was closed */
    /* A file of tables, instead of definitions and events. */
    CHUNK_CONTENTS = 4, /* how many strings and rows there are; the first chunk */
    CHUNK_STRINGS = 5,
    CHUNK_ROWS = 6,
};

/* Before every chunk's payload. */
struct opm_chunk {
    uint32_t magic;
    uint16_t kind;
    uint16_t flags;
    uint32_t size;       /* of the payload */
    uint32_t crc;        /* CRC-32C of the payload */
    uint32_t thread;     /* serial number of the thread; 0 for CHUNK_DEFS */
    uint32_t seq;        /* of the first block in it; blocks of a thread count from 0 */
    uint32_t nblock;     /* how many blocks were packed into it */
    uint32_t header_crc; /* CRC-32C of the bytes before it */
};
static_assert(sizeof(struct opm_chunk) == 32, "file format");

#define OPM_CHUNK_MAX (64u << 20) /* a longer payload is damage */

/* How the values of a column in CHUNK_ROWS become numbers that are not negative. */
enum opm_column_kind {
    COLUMN_INT = 0,      /* 0: NULL, else zigzag + 1 */
    COLUMN_ID = 1,       /* 0: NULL, else row + 1 */
    COLUMN_STR = 2,      /* 0: NULL, else number of the string */
    COLUMN_REAL = 3,     /* bits of a double; NaN: NULL */
    COLUMN_REAL_INT = 4, /* doubles that are integers, as in COLUMN_INT */
    COLUMN_FORM = 5,     /* texts that differ in numbers only; of several packed columns */
};

enum opm_string_packing { STRINGS_PLAIN = 0, STRINGS_ZSTD = 1 };

/* A text with one of these bytes in place of each number; how many numbers it takes. */
enum opm_form_mark { FORM_INT = 1, FORM_DECIMAL = 2, FORM_HEX = 3 };
#define OPM_FORM_VALUES_MAX 256u /* of one text */

/* What a file may unpack to is bounded by its size: so many rows, or bytes of strings, per byte of
 * payload. Writers fill payloads up with zeros where they are smaller. */
#define OPM_ROWS_PER_BYTE 16u
#define OPM_STRING_RATIO 1024u

/* A CHUNK_DEFS payload, and the content of a live definitions block, is a run of items: varint
 * kind, varint size, that many bytes. Unknown kinds are skipped. Fields are varints; a string is a
 * varint length and its bytes; an optional string is length + 1, or 0. */
enum opm_item {
    ITEM_SITE = 1,        /* id, role, layer, name, optional category, role-specific: see docs */
    ITEM_STRING = 2,      /* id, string */
    ITEM_THREAD = 3,      /* serial, tid, optional name */
    ITEM_META = 4,        /* key, value */
    ITEM_CALIBRATION = 5, /* ticks, monotonic, realtime: 8 bytes each */
    ITEM_TRACK = 6,       /* id, clock, kind, name, optional device, then perhaps a number */
    ITEM_TRACK_SYNC = 7,  /* track id, device ns, monotonic ns (zigzag) */
    ITEM_MEM =
        8, /* optional owner, optional kind, zigzag bytes, zigzag addr, first op id, last op id */
};

/* What a site stands for. */
enum opm_role {
    ROLE_SPAN = 0,
    ROLE_OP = 1,     /* the item goes on with phase and the operator's description */
    ROLE_STEP = 2,   /* name is the model */
    ROLE_RECORD = 3, /* name is the label */
    ROLE_ACTIVITY = 4,
    ROLE_COUNTER = 5,
    ROLE_QUEUE = 6, /* the item goes on with zigzag capacity */
    ROLE_PHASE = 7, /* forward, backward, update inside a step */
};

/* Keys of arguments with a meaning of their own; others are ids of strings. */
enum opm_arg_key {
    ARG_KEY_STEP = 0xfffff0,  /* number of a step, or the step of an activity */
    ARG_KEY_FLAGS = 0xfffff1, /* enum opm_record_flags */
    ARG_KEY_META = 0xfffff2,  /* string: JSON object of an activity */
    ARG_KEY_CORRELATION = 0xfffff3,
};
#define OPM_ID_MAX 0xffffefu /* ids of sites, strings and tracks are 1..OPM_ID_MAX */

/* A unit is 16 bytes; an event is one to three of them. Word 0 of the first is a time in ticks,
 * word 1 holds kind, id and 36 bits of value. */
struct opm_unit {
    uint64_t ticks;
    uint64_t word;
};
static_assert(sizeof(struct opm_unit) == 16, "file format");

#define UNIT_KIND_BITS 4
#define UNIT_ID_BITS 24
#define UNIT_VALUE_BITS 36
#define UNIT_VALUE_MAX ((1ull << UNIT_VALUE_BITS) - 1)

/* Kind, units, name. What the further units hold (a, b = words 0 and 1):
 *   SPAN         value = duration
 *   LONG_SPAN    a = duration
 *   BEGIN        a span that began; ended by the next unmatched END of the thread, or never
 *   END          ticks = end
 *   ASYNC_BEGIN  ticks = start; (thread, ticks) is its name
 *   ASYNC_END    ticks = end; a = start, b = thread that began it
 *   COUNTER      a = double bits
 *   ARG_INT      ticks = start of the span, id = key; a = value, b = thread of the span
 *   ARG_REAL     likewise, a = double bits
 *   ARG_STR      likewise, a = id of a string
 *   DEVICE_SPAN  ticks = start in the track's clock; a = end, b = correlation; c = track id,
 *                d = id of a string, the arguments as a JSON object, or 0
 *   FLOW         ticks = now; a = source start, b = source thread; then destination start, thread
 *   LOST         value = spans dropped at this point
 *   INT_COUNTER  a = integer value */
#define OPM_UNIT_KINDS(X) \
    X(SPAN, 1, 1)         \
    X(LONG_SPAN, 2, 2)    \
    X(BEGIN, 3, 1)        \
    X(END, 4, 1)          \
    X(ASYNC_BEGIN, 5, 1)  \
    X(ASYNC_END, 6, 2)    \
    X(COUNTER, 7, 2)      \
    X(ARG_INT, 8, 2)      \
    X(ARG_REAL, 9, 2)     \
    X(ARG_STR, 10, 2)     \
    X(DEVICE_SPAN, 11, 3) \
    X(FLOW, 12, 3)        \
    X(LOST, 13, 1)        \
    X(INT_COUNTER, 14, 2)

enum opm_unit_kind {
#define X(name, value, units) UNIT_##name = value,
    OPM_UNIT_KINDS(X)
#undef X
};

static inline unsigned unit_kind(const struct opm_unit *u)
{
    return u->word & 15;
}
static inline uint32_t unit_id(const struct opm_unit *u)
{
    return (u->word >> UNIT_KIND_BITS) & 0xffffff;
}
static inline uint64_t unit_value(const struct opm_unit *u)
{
    return u->word >> (UNIT_KIND_BITS + UNIT_ID_BITS);
}
static inline uint64_t unit_word(enum opm_unit_kind kind, uint32_t id, uint64_t value)
{
    return (uint64_t)kind | (uint64_t)id << UNIT_KIND_BITS |
           value << (UNIT_KIND_BITS + UNIT_ID_BITS);
}
/* Units of an event by the kind of its first; 0 for a kind that does not exist. */
static inline unsigned unit_count(unsigned kind)
{
    switch (kind) {
#define X(name, value, units) \
    case value:               \
        return units;
        OPM_UNIT_KINDS(X)
#undef X
    default:
        return 0;
    }
}

/* ---- the live file: buffers of a recording that is going on, mapped by the recorder ---- */

#define OPM_BLOCK_SIZE 32768u
#define OPM_SLOT_SIZE 4096u
#define OPM_LIVE_HEADER_SIZE 4096u
#define OPM_STACK_MAX 252u /* spans nested deeper go into the stream as BEGIN and END */

struct opm_live_header {
    char magic[8];
    uint32_t version;
    uint32_t nslot;
    uint32_t nblock;
    uint32_t pid;
    uint8_t session[16];
    struct opm_calibration
        last; /* rewritten by the writer now and then; last_seq is odd meanwhile */
    uint32_t last_seq;
    uint32_t reserved;
    uint64_t lost_no_room; /* kept here while recording, copied to the status when it stops */
    uint64_t unbalanced_ends;
    uint64_t closed_by_parent;
    uint64_t lost; /* as in the status, which a full disk may have kept from being written */
    uint64_t lost_other;
};
static_assert(sizeof(struct opm_live_header) == 112, "file format");

#define OPM_NO_BLOCK 0xffffffffu

/* One per recording thread; the thread alone writes it. After the header: slots, then blocks. */
struct opm_slot {
    uint32_t serial; /* 0: free */
    uint32_t block;  /* block being filled, or OPM_NO_BLOCK */
    uint32_t used;   /* units in that block */
    uint32_t depth;  /* open spans; those beyond OPM_STACK_MAX are not on the stack */
    uint32_t seq;    /* of that block */
    uint32_t reserved[11];
    struct opm_unit stack[OPM_STACK_MAX]; /* ticks = start, word = id */
};
static_assert(sizeof(struct opm_slot) == OPM_SLOT_SIZE, "file format");

enum opm_block_state { BLOCK_FREE = 0, BLOCK_FILLING = 1, BLOCK_FULL = 2 };

/* thread 0: a definitions block, `used` counts bytes and is kept current while filling. Else `used`
 * counts units and is right once the block is full; until then the slot knows. */
struct opm_block_header {
    uint32_t state;
    uint32_t thread;
    uint32_t seq;
    uint32_t used;
};
static_assert(sizeof(struct opm_block_header) == 16, "file format");

#define OPM_BLOCK_UNITS \
    ((OPM_BLOCK_SIZE - sizeof(struct opm_block_header)) / sizeof(struct opm_unit))
#define OPM_BLOCK_BYTES (OPM_BLOCK_SIZE - sizeof(struct opm_block_header))

static inline uint64_t live_slot_offset(uint32_t slot)
{
    return OPM_LIVE_HEADER_SIZE + (uint64_t)slot * OPM_SLOT_SIZE;
}
static inline uint64_t live_block_offset(uint32_t nslot, uint32_t block)
{
    return live_slot_offset(nslot) + (uint64_t)block * OPM_BLOCK_SIZE;
}

#endif
