/* standin.h -- what a test asks the stand-in for ONNX Runtime, by dlsym(). */
#ifndef STANDIN_H
#define STANDIN_H

/* Since the last standin_forget(), in order, two letters for each thing that happened: b (bare) or
 * p (profiled) for the session, then + for made, - for released, r for a run. */
typedef const char *standin_diary_fn(void);
typedef void standin_forget_fn(void);

#endif
