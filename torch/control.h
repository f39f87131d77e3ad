// The C functions by which Python drives a Session: plain types only, so ctypes is all the binding there is.
//
// Whatever may fail returns nullptr when it went well and else one line that says what was wrong; the line is
// good until the thread's next call. No function throws.
#pragma once

extern "C" {

/// As "1.2.3".
const char* stweaver_version();

/// The headers that the core was built from, a line for each: name and SHA-256. An adapter that is built from
/// others does not fit. (The function is made by headers.cmake.)
const char* stweaver_headers();

/// Begins a session; `options` is a line `name=value` for each option that is not at its default:
///   plan=PATH          follow this plan from the first request on
///   trace=PATH         record into this file
///   save=PATH          put a plan of the whole job there, for its next run
///   follow=0           only record
///   steps=found        nobody calls stweaver_begin_step(): find steps in the request stream; not with plan=
///   record_steps=N     whole steps to record before planning
///   hold=BYTES         of a device's memory that may be held before any is moved
///   settings=TEXT      of PyTorch's own allocator, written into traces
///   simulate=1         find out what PyTorch's CUDA allocator would have reserved for the recorded steps
///   verbose=1          print each transition on standard error
/// "{device}" in a path stands for the device's number.
const char* stweaver_start(void* session, const char* options);

/// Ends recording, planning and following; blocks that live stay where they are.
void stweaver_stop(void* session);
/// The same at the end of the process: memory stays where it is, so that nothing waits for the device.
void stweaver_finish(void* session);

/// One optimizer step has ended and the next begins.
void stweaver_begin_step(void* session);
/// Those so far were no steps: what was planned from them goes, and recording begins anew.
void stweaver_restart(void* session);

/// Everything the session knows of itself, as JSON: bytes as integers; nullptr where the host has no memory
/// for it. To be given to stweaver_release().
char* stweaver_statistics(void* session);
void stweaver_release(char* text);

/// A device's living blocks as torch.cuda.memory_stats() counts them, as JSON: `reserved{current, peak}`, and
/// for each of `all`, `small_pool` and `large_pool` what is counted of `blocks`, `bytes` and `requested`.
/// "{}" for a device that was not asked for memory, nullptr as above. To be given to stweaver_release().
char* stweaver_meters(void* session, int device);
/// As torch.cuda.reset_peak_memory_stats() and reset_accumulated_memory_stats() reset them.
void stweaver_reset_peaks(void* session, int device);
void stweaver_reset_accumulated(void* session, int device);

/// Plans the whole job in a trace file or an uncompressed memory snapshot. `threads` 0: all cores.
const char* stweaver_plan(const char* trace_path, const char* plan_path, int threads);

}  // extern "C"
