#include "arena/block_table.h"

#include <bit>
#include <utility>

namespace stweaver {

BlockTable::BlockTable(std::size_t expected) {
  reserve(expected);
}

void BlockTable::reserve(std::size_t blocks) {
  // At most half full: chains stay short.
  const std::size_t cells = std::bit_ceil(std::max<std::size_t>(2 * blocks, 16));
  if (cells > cells_.size()) rehash(cells);
}

void BlockTable::rehash(std::size_t cells) {
  const std::vector<LivingBlock> old = std::exchange(cells_, std::vector<LivingBlock>(cells));
  shift_ = 64U - static_cast<unsigned>(std::countr_zero(cells));
  count_ = 0;
  for (const LivingBlock& block : old) {
    if (block.address != 0) insert(block);
  }
}

/// Fibonacci hashing: addresses differ in their middle bits, the product's top bits depend on all of them.
std::size_t BlockTable::home(std::uintptr_t address) const {
  return static_cast<std::size_t>((address * 0x9E3779B97F4A7C15ULL) >> shift_);
}

void BlockTable::insert(const LivingBlock& block) {
  if (2 * (count_ + 1) > cells_.size()) rehash(2 * cells_.size());
  std::size_t cell = home(block.address);
  while (cells_[cell].address != 0) cell = (cell + 1) & (cells_.size() - 1);
  cells_[cell] = block;
  ++count_;
}

LivingBlock* BlockTable::find(std::uintptr_t address) {
  if (address == 0) return nullptr;
  std::size_t cell = home(address);
  while (cells_[cell].address != address) {
    if (cells_[cell].address == 0) return nullptr;
    cell = (cell + 1) & (cells_.size() - 1);
  }
  return &cells_[cell];
}

void BlockTable::erase(LivingBlock* block) {
  const std::size_t mask = cells_.size() - 1;
  auto hole = static_cast<std::size_t>(block - cells_.data());
  // What was pushed on by the block moves back, so that no chain is broken and no tombstone is left.
  for (std::size_t cell = (hole + 1) & mask; cells_[cell].address != 0; cell = (cell + 1) & mask) {
    const std::size_t pushed = (cell - home(cells_[cell].address)) & mask;
    if (pushed < ((cell - hole) & mask)) continue;
    cells_[hole] = cells_[cell];
    hole = cell;
  }
  cells_[hole].address = 0;
  --count_;
}

}  // namespace stweaver
