/* sample.h -- one of everything that can be recorded, for tests of what becomes of the bytes. */
#ifndef SAMPLE_H
#define SAMPLE_H

/* Call while recording. Spans are left open if `leave_open`. */
void sample_everything(int leave_open);
void sample_spans(int n);
void sample_deep(int depth);

#endif
