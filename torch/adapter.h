// What every adapter library offers to Python, under the same names.
#pragma once

extern "C" {

/// The adapter's stweaver::Session, for the functions of control.h.
void* stweaver_adapter_session();

/// Puts the adapter in PyTorch's way, or takes it out again; in a running job too. Nothing happens when it is
/// so already. nullptr, or one line that says why it could not be.
const char* stweaver_adapter_install();
const char* stweaver_adapter_remove();

}  // extern "C"
