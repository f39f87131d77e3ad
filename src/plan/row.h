// Rows: the places of a pipeline's micro-batches in pieces, in the order in which they are let go.
#pragma once

#include "plan/frame.h"

namespace stweaver {

/// Where the long-lived items of a pipeline may lie if lives do not end in the order in which they begin: on
/// an interleaved schedule, say, so that there is no ring (rings_of()). A micro-batch takes the *place* of
/// one of the same sizes that has gone. At the fullest moment of its own backward, the gap between the places
/// has to border on its *tail*, which is what it lets go of before: the next gradients need both in one
/// piece.
///
/// So each place is in pieces, one for every micro-batch that will lie there, and all pieces of all places
/// stand in the order in which those micro-batches die; each has its tail at the lower end of its own piece.
/// The gap begins below the first piece. Whenever a micro-batch has gone, the one that follows in its place
/// begins the piece that borders on the gap lower, by the width of the gap, which has thereby got to the next
/// piece. No piece is passed twice, so that nothing ever has to come round.
///
/// Pieces have to be filled exactly by the sizes of a micro-batch, whichever of them holds the tail. How many
/// of the addresses are kept for short-lived items makes several rows of one order.
///
/// Rows are of the items of class 0; these end at or below `capacity` less Item::above, or up to 1/4096 of
/// the capacity higher where sizes do not add up exactly. There are none where micro-batches differ so much
/// that their places do not fit, and none where more of them follow each other than the sizes can make pieces
/// for. Wants a plain instance, which must outlive what is returned. O(n log n).
NextFrame rows_of(const Instance& instance, const Classes& classes, Bytes capacity);

}  // namespace stweaver
