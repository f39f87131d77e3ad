// Rings: what lives long, in order of death round a circle of addresses.
#pragma once

#include "plan/frame.h"

namespace stweaver {

/// Where the long-lived items of a pipeline may lie. A micro-batch takes the places of the one that has just
/// gone, and what is free beside them has to border on what the oldest lets go of first: at the fullest
/// moment the next gradients need both in one piece. Laid out in order of death round a circle of addresses,
/// every micro-batch has that by itself, however many follow: the gap goes round, by its own width each time.
/// In a line of addresses it would come to an end.
///
/// The circle is cut open. Nothing may lie across the cut, so items of the micro-batch there change places
/// until some end right at it; and the gap should not lie there while it is needed in one piece. Where the
/// cut is, and how many of the addresses are kept for short-lived items, makes many rings of the one order.
/// The likeliest come first.
///
/// Rings are of the items of class 0; these end at or below `capacity` less Item::above. There are none where
/// lives do not end in the order in which they begin, micro-batch by micro-batch, and none where the items do
/// not go round once. Wants a plain instance, which must outlive what is returned. O(n log n).
NextFrame rings_of(const Instance& instance, const Classes& classes, Bytes capacity);

}  // namespace stweaver
