#include "test/support/tile_trap.h"

#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace oneflow::testing {
namespace {

#ifdef __x86_64__

std::atomic<int64_t> instructions{0};

// A thread's.
struct TileRegisters {
  bool configured = false;
  uint32_t tiles[8][16][16];
};
thread_local TileRegisters registers;

[[noreturn]] void Die(const char* why) {
  // Nothing but what a signal handler may call.
  if (write(STDERR_FILENO, why, std::strlen(why)) < 0) std::abort();
  std::abort();
}

// One instruction: VEX with three bytes, as all on tiles have it.
struct Instruction {
  int prefix = 0, opcode = 0;  // prefix: 0 none, 2 F3, 3 F2
  int mod = 0, reg = 0, rm = 0, other = 0;
  uint64_t address = 0, step = 0;  // of memory: where, and the index register
  int64_t length = 0;
};

constexpr int kRegisters[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                              REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

// The address of a memory operand whose first byte behind modrm is at `p`; and where the instruction ends.
const uint8_t* Address(const ucontext_t& context, const uint8_t* p, bool base_high, bool index_high, Instruction& it) {
  const auto value = [&](int number) { return static_cast<uint64_t>(context.uc_mcontext.gregs[kRegisters[number]]); };
  bool has_base = true, relative = false;
  int base = it.rm + (base_high ? 8 : 0), scale = 0;
  if (it.rm == 4) {
    const uint8_t sib = *p++;
    const int index = (sib >> 3 & 7) + (index_high ? 8 : 0);
    scale = sib >> 6;
    base = (sib & 7) + (base_high ? 8 : 0);
    has_base = !((sib & 7) == 5 && it.mod == 0);
    it.step = index == 4 ? 0 : value(index) << scale;
  } else if (it.rm == 5 && it.mod == 0) {
    has_base = false;
    relative = true;
  }
  int32_t displacement = 0;
  if (it.mod == 1) {
    displacement = static_cast<int8_t>(*p++);
  } else if (it.mod == 2 || !has_base) {
    std::memcpy(&displacement, p, sizeof(displacement));
    p += sizeof(displacement);
  }
  it.address = (has_base ? value(base) : 0) + static_cast<uint64_t>(int64_t{displacement});
  if (relative) it.address += reinterpret_cast<uint64_t>(p);
  return p;
}

Instruction Decode(const ucontext_t& context, const uint8_t* at) {
  Instruction it;
  const uint8_t* p = at;
  if (*p++ != 0xc4) Die("tile trap: an instruction that is unknown, and none on tiles\n");
  const uint8_t first = *p++, second = *p++;
  if ((first & 0x1f) != 2 || (second & 0x84) != 0)
    Die("tile trap: an instruction that is unknown, and none on tiles\n");
  it.prefix = second & 3;
  it.other = ~(second >> 3) & 15;
  it.opcode = *p++;
  const uint8_t modrm = *p++;
  it.mod = modrm >> 6;
  it.reg = modrm >> 3 & 7;
  it.rm = modrm & 7;
  if (it.mod != 3) p = Address(context, p, (first & 0x20) == 0, (first & 0x40) == 0, it);
  it.length = p - at;
  return it;
}

void Configure(const Instruction& it) {
  uint8_t bytes[64];
  std::memcpy(bytes, reinterpret_cast<const void*>(it.address), sizeof(bytes));
  for (int tile = 0; tile < 8; ++tile) {
    uint16_t row_bytes = 0;
    std::memcpy(&row_bytes, bytes + 16 + 2 * tile, sizeof(row_bytes));
    if (bytes[0] != 1 || bytes[1] != 0 || row_bytes != 64 || bytes[48 + tile] != 16) {
      Die("tile trap: a configuration that is not eight tiles of 16 rows of 64 bytes\n");
    }
  }
  std::memset(registers.tiles, 0, sizeof(registers.tiles));
  registers.configured = true;
}

float Flushed(float x) { return std::abs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x; }
float Wide(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return Flushed(x);
}

// The formula of kernels/cpu/tile.h, one number at a time.
void Multiply(int sums, int a, int b) {
  auto& tiles = registers.tiles;
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 16; ++column) {
      float even = 0, odd = 0;
      for (int p = 0; p < 16; ++p) {
        const uint32_t x = tiles[a][row][p], y = tiles[b][p][column];
        even = Flushed(std::fma(Wide(x << 16), Wide(y << 16), even));
        odd = Flushed(std::fma(Wide(x & 0xffff0000u), Wide(y & 0xffff0000u), odd));
      }
      const float sum = Flushed(Wide(tiles[sums][row][column]) + Flushed(even + odd));
      std::memcpy(&tiles[sums][row][column], &sum, sizeof(sum));
    }
  }
}

void Move(const Instruction& it, bool store) {
  for (int row = 0; row < 16; ++row) {
    void* const memory = reinterpret_cast<void*>(it.address + static_cast<uint64_t>(row) * it.step);
    if (store) {
      std::memcpy(memory, registers.tiles[it.reg][row], 64);
    } else {
      std::memcpy(registers.tiles[it.reg][row], memory, 64);
    }
  }
}

void CarryOut(const Instruction& it) {
  const bool memory = it.mod != 3;
  if (it.opcode == 0x49 && it.prefix == 0 && memory && it.reg == 0) return Configure(it);
  if (!registers.configured) Die("tile trap: tiles are used by a thread that has not configured them\n");
  if (it.opcode == 0x49 && it.prefix == 0 && !memory && it.reg == 0 && it.rm == 0) {
    registers.configured = false;
  } else if (it.opcode == 0x49 && it.prefix == 3 && !memory && it.rm == 0) {
    std::memset(registers.tiles[it.reg], 0, sizeof(registers.tiles[it.reg]));
  } else if (it.opcode == 0x4b && memory && it.rm == 4 && (it.prefix == 2 || it.prefix == 3)) {
    Move(it, /*store=*/it.prefix == 2);
  } else if (it.opcode == 0x5c && it.prefix == 2 && !memory && it.other < 8) {
    if (it.reg == it.rm || it.reg == it.other || it.rm == it.other) Die("tile trap: one tile as two operands\n");
    Multiply(it.reg, it.rm, it.other);
  } else {
    Die("tile trap: an instruction on tiles that it does not know\n");
  }
}

void Handle(int, siginfo_t*, void* context_pointer) {
  auto& context = *static_cast<ucontext_t*>(context_pointer);
  auto& pc = context.uc_mcontext.gregs[REG_RIP];
  const Instruction it = Decode(context, reinterpret_cast<const uint8_t*>(pc));
  CarryOut(it);
  pc += it.length;
  instructions.fetch_add(1, std::memory_order_relaxed);
}

#endif

}  // namespace

TileTrap::TileTrap() {
#ifdef __x86_64__
  instructions = 0;
  struct sigaction action = {};
  action.sa_sigaction = Handle;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGILL, &action, &before_);
#endif
}

TileTrap::~TileTrap() {
#ifdef __x86_64__
  sigaction(SIGILL, &before_, nullptr);
#endif
}

int64_t TileTrap::count() const {
#ifdef __x86_64__
  return instructions;
#else
  return 0;
#endif
}

}  // namespace oneflow::testing
