// The kernel behind Device::count_other on CUDA, in PTX: the driver translates it for whatever GPU it finds.
#pragma once

namespace stweaver {

inline constexpr const char* kCountKernelName = "count_other";

/// count_other(words, count, value, others): adds to the 64-bit number at `others` how many of the `count`
/// 32-bit words at `words` are not `value`. Any grid of one dimension will do.
inline constexpr const char* kCountKernel = R"(
.version 6.0
.target sm_50
.address_size 64

.visible .entry count_other(
    .param .u64 words, .param .u64 count, .param .u32 value, .param .u64 others)
{
    .reg .pred %inside, %differs, %none;
    .reg .u32 %block, %blocks, %threads, %thread, %wanted, %word;
    .reg .u64 %at, %end, %stride, %first, %sum, %one, %others;

    // This thread's words: at, at + stride, ..., below end; one word per thread of the grid in each stride.
    mov.u32 %block, %ctaid.x;
    mov.u32 %blocks, %nctaid.x;
    mov.u32 %threads, %ntid.x;
    mov.u32 %thread, %tid.x;
    ld.param.u64 %at, [words];
    ld.param.u64 %end, [count];
    ld.param.u32 %wanted, [value];
    cvta.to.global.u64 %at, %at;
    shl.b64 %end, %end, 2;
    add.u64 %end, %at, %end;
    mul.wide.u32 %stride, %blocks, %threads;
    shl.b64 %stride, %stride, 2;
    cvt.u64.u32 %first, %thread;
    mad.wide.u32 %first, %block, %threads, %first;
    shl.b64 %first, %first, 2;
    add.u64 %at, %at, %first;
    mov.u64 %sum, 0;

next:
    setp.lt.u64 %inside, %at, %end;
    @!%inside bra done;
    ld.global.u32 %word, [%at];
    setp.ne.u32 %differs, %word, %wanted;
    selp.u64 %one, 1, 0, %differs;
    add.u64 %sum, %sum, %one;
    add.u64 %at, %at, %stride;
    bra next;

done:
    setp.eq.u64 %none, %sum, 0;
    @%none ret;
    ld.param.u64 %others, [others];
    cvta.to.global.u64 %others, %others;
    red.global.add.u64 [%others], %sum;
    ret;
}
)";

}  // namespace stweaver
