/* ort_int.h -- the parts of the ONNX Runtime engine.
 *
 * ort.c runs models, ort_profile.c reads the profile that ONNX Runtime leaves behind, ort_match.c
 * finds the model's nodes behind what was executed. */
#ifndef ENGINE_ORT_INT_H
#define ENGINE_ORT_INT_H

#include "base/arena.h"
#include "base/strpool.h"
#include "engine/engine.h"
#include "engine/ort/ort_lib.h"

#include <opmeter/opmeter.h>

/* Something that ONNX Runtime executed: a node of its optimised graph. */
struct ort_node {
    const char *name;
    const char *type;
    const char *provider;
    const char *in_shapes; /* JSON as in the profile, [{"float":[1,784]},...]; or NULL */
    const char *out_shapes;
    uint32_t count;
    bool has_body; /* ran other nodes inside: If, Loop, Scan */
};

/* Events of the profile; node is an index, or for a session event one into session[]. */
struct ort_event {
    int64_t ts_us;
    int64_t dur_us;
    uint32_t node;
    uint32_t order; /* place in the file: inner events come before outer ones */
    bool session;
};

struct ort_profile {
    struct arena arena; /* all strings */
    struct strpool key;
    struct ort_node *node;
    size_t nnode, node_cap;
    uint32_t *by_key; /* str_id -> node index + 1 */
    size_t key_cap;
    const char **session; /* names of session events */
    size_t nsession, session_cap;
    struct ort_event *event; /* ordered by time, outer before inner */
    size_t nevent, event_cap;
    uint64_t runs; /* model_run events */
    bool cut;      /* the file ended early or was not JSON from some place on */
};

int ort_profile_read(struct ort_profile *p, const void *json, size_t len, opm_error *err);
void ort_profile_release(struct ort_profile *p);

/* The nodes of a model by name, to look up what ONNX Runtime says it ran. */
struct ort_match;
int ort_match_new(struct ort_match **out, struct model *m, const struct ort_profile *p,
                  opm_error *err);
/* Describe node i of the profile, with the model's nodes it covers where that is certain. NULL:
 * out of memory. */
opm_op *ort_match_define(struct ort_match *mt, size_t i, const char *engine);
void ort_match_free(struct ort_match *mt);

#endif
