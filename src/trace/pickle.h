// Reads Python pickles that hold plain data, and nothing else: no opcode that would import, call or build
// anything is understood, so reading a stranger's file runs none of its code.
//
// The opcodes are those of protocols 2 to 5 (Python's Lib/pickletools.py documents each).
#pragma once

#include "trace/pickle_document.h"
#include "trace/source.h"

namespace stweaver {

/// Runs the pickle in `source` and returns its one object, whose parts are in `document`. Error, naming the
/// document, the opcode and its byte offset, when the input ends early, is no pickle, or is more than data.
PickleValue read_pickle(const ByteSource& source, PickleDocument& document);

}  // namespace stweaver
