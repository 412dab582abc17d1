/* topics.h -- what `opmeter help TOPIC` says beyond the commands. */
#ifndef CLI_TOPICS_H
#define CLI_TOPICS_H

struct topic {
    const char *name;
    const char *about; /* a few words, for the list */
    const char *text;  /* lines as they are printed */
};
extern const struct topic topics[]; /* ends with a NULL name */

#endif
