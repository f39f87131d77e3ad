// What a library that watches the operations of a framework tells null CUDA, and asks of it: C functions of
// libnullcuda.so. Addresses are device addresses; sizes are bytes. All of them may be called from any thread.
//
// Device memory of a process that watches is readable and writable (NULLCUDA_VALUES=1): what is *known* there
// is what a GPU would hold.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The bytes hold from now on what a GPU would hold: the caller has written them.
void nullcuda_know(const void* address, size_t size);

/// Nobody knows any more what the bytes would hold: they were freed, handed out again, or written by a kernel
/// whose inputs are unknown. Cheap where nothing is known.
void nullcuda_forget(const void* address, size_t size);

/// 1 if every one of the bytes is known, else 0.
int nullcuda_knows(const void* address, size_t size);

/// The next copy to the host of at most 8 bytes that this thread makes gets `value` (little endian) where the
/// bytes are unknown: for counts that a kernel left in scratch memory. nullcuda_answer_no_more() takes it
/// back.
void nullcuda_answer(int64_t value);
void nullcuda_answer_no_more(void);

/// Something that steers the program was not known and had to be made up. `what` names it (an operator, a
/// policy); the report at the end counts each name.
void nullcuda_guess(const char* what);

/// A kernel on `stream` (a cudaStream_t) reads (`writes` = 0) or writes the bytes. In checking mode the
/// process stops with one line if they are not mapped, or if another stream's use of them is not ordered
/// before this one. Where the stream is captured, what is written is unknown after each launch of the graph.
/// Else nothing happens.
void nullcuda_use(const void* address, size_t size, const void* stream, int writes);

/// 1 if nullcuda_use() does anything now: in checking mode, and while a stream is captured.
int nullcuda_wants_uses(void);

#ifdef __cplusplus
}
#endif
