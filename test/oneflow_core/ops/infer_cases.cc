#include "test/oneflow_core/ops/infer_cases.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "oneflow_core/status.h"

namespace oneflow::testing {
namespace {

constexpr const char kCases[] = R"(
# Sources

variable() {dtype=f32 shape=[2,3] init=normal(0.02) trainable=true} = f32[2,3]
variable() {dtype=i64 shape=[] init=zeros} = i64[]
variable() {dtype=i32 shape=[1,4] init=list(1,2,3)} = i32[1,4]
variable() {dtype=f32 shape=[0] init=list()} = f32[0]
variable(f32[]) {dtype=f32 shape=[] init=zeros} ! takes 0 inputs () but is given 1
variable() {shape=[2] init=zeros} ! attribute 'dtype' is missing
variable() {dtype=f33 shape=[2] init=zeros} ! attribute 'dtype' is 'f33' but must be f32, bf16, f16, i32, i64, u8 or bool
variable() {dtype=f32 shape=[2,-1] init=zeros} ! attribute 'shape' is [2,-1]: size -1 is negative
variable() {dtype=f32 shape=3 init=zeros} ! attribute 'shape' is an integer but must be a list of integers
variable() {dtype=f32 shape=[2]} ! attribute 'init' is missing
variable() {dtype=f32 shape=[2] init=twos} ! attribute 'init' is 'twos': must be zeros, ones, constant(v), normal(std), uniform(bound) or list(1,2,3)
variable() {dtype=f32 shape=[2] init=gauss(1)} ! attribute 'init' is 'gauss(1)': must be zeros, ones, constant(v), normal(std), uniform(bound) or list(1,2,3)
variable() {dtype=f32 shape=[2] init=normal(x)} ! attribute 'init' is 'normal(x)': 'x' is not a finite number
variable() {dtype=f32 shape=[2] init=normal(nan)} ! attribute 'init' is 'normal(nan)': 'nan' is not a finite number
variable() {dtype=f32 shape=[2] init=normal()} ! attribute 'init' is 'normal()': '' is not a finite number
variable() {dtype=f32 shape=[2] init=normal(1,2)} ! attribute 'init' is 'normal(1,2)': takes 1 number, not 2
variable() {dtype=i32 shape=[2] init=uniform(1)} ! attribute 'init' is 'uniform(1)': the variable is i32[2] but random values are floating
variable() {dtype=i32 shape=[2] init=list(1,2,3)} ! attribute 'init' is 'list(1,2,3)': 3 numbers are too many for i32[2]
variable() {dtype=i32 shape=[2] init=zeros trainable=true} ! the variable is trainable but i32[2]; only floating variables have gradients
variable() {dtype=f32 shape=[2] init=zeros trainable=1} ! attribute 'trainable' is an integer but must be a bool
variable() {dtype=f32 shape=[1073741824,1073741824] init=zeros} ! the result f32[1073741824,1073741824] has more than 2^58 elements

read_data() {dataset=text batch=4 context=16 path=/a/file} = i32[4,16] i32[4,16]
read_data() {dataset=images batch=4 channels=1 height=28 width=28} = f32[4,1,28,28] i32[4]
read_data() {batch=4} ! attribute 'dataset' is missing
read_data() {dataset=prototypes batch=4 channels=1 height=8 width=8} = f32[4,1,8,8] i32[4]
read_data() {dataset=clicks batch=4 fields=3 numbers=2} = i32[4,3] f32[4,2] i32[4]
read_data() {dataset=clicks batch=4} ! attribute 'fields' is missing
read_data() {dataset=sound batch=4} ! attribute 'dataset' is 'sound' but must be 'text', 'images', 'prototypes' or 'clicks'
read_data() {dataset=text batch=0 context=16} ! attribute 'batch' is 0 but must be at least 1
read_data() {dataset=text batch=4} ! attribute 'context' is missing
read_data() {dataset=text batch=4 context=16.5} ! attribute 'context' is a number but must be an integer
read_data() {dataset=images batch=4 channels=1 height=28 width=0} ! attribute 'width' is 0 but must be at least 1

constant() {dtype=f32 shape=[2] value=0.5} = f32[2]
constant() {dtype=i64 shape=[] value=3} = i64[]
constant() {dtype=f32 shape=[2]} ! attribute 'value' is missing
constant() {dtype=f32 shape=[2] value=one} ! attribute 'value' is a string but must be a number
constant() {dtype=i32 shape=[2] value=0.5} ! attribute 'value' is 0.5 but the constant is of integers (i32)

# Plumbing

to(f32[2]) = f32[2]
to(u8[2]) = u8[2]
to() ! takes 1 inputs (x) but is given 0
boxing(i32[2]) = i32[2]
boxing(i32[2] i32[2]) ! takes 1 inputs (x) but is given 2
accumulate(f32[2,3]) = f32[2,3]
accumulate(bool[2]) ! x is bool[2] but must be floating, i32 or i64
replica_digest(f32[2,3]) {shape=[2,4]} = i32[2,4]
replica_digest(bool[2]) {shape=[]} = i32[]
replica_digest(f32[2]) ! attribute 'shape' is missing
assert_replicas(f32[2,3] i32[2]) = f32[2,3]
assert_replicas(f32[2] f32[2]) ! digests is f32[2] but must be i32
fetch(i32[]) {name=token} =
fetch(f32[]) ! attribute 'name' is missing
fetch(f32[]) {name=''} ! attribute 'name' is empty
assign(f32[2] f32[2]) =
assign(f32[2] f32[3]) ! v is f32[2], x is f32[3]; they must be the same
assign(f32[2] bf16[2]) ! v is f32[2], x is bf16[2]; they must be the same
increment(i64[]) =
increment(i32[]) ! v is i32[] but must be i64

# Elementwise

add(f32[2,3] f32[2,3]) = f32[2,3]
add(f32[2,3] f32[3]) = f32[2,3]
add(f32[2,1] f32[1,3]) = f32[2,3]
add(f32[0,1] f32[1,3]) = f32[0,3]
add(i32[4] i32[]) = i32[4]
add(f32[2,3] f32[2]) ! shapes do not broadcast: a is [2,3], b is [2] (3 against 2)
add(f32[2] i32[2]) ! dtypes differ: a is f32[2], b is i32[2]
add(i32[2] i64[2]) ! dtypes differ: a is i32[2], b is i64[2]
add(u8[2] u8[2]) ! a is u8[2] but must be floating, i32 or i64
add(f32[2]) ! takes 2 inputs (a, b) but is given 1
add(f32[536870912,1] f32[1073741824]) ! the result f32[536870912,1073741824] has more than 2^58 elements
sub(f32[2,3] f32[]) = f32[2,3]
sub(f32[3] f32[2,3]) = f32[2,3]
sub(f32[3] f32[0]) ! shapes do not broadcast: a is [3], b is [0] (3 against 0)
mul(bf16[2,3] bf16[2,1]) = bf16[2,3]
mul(f32[] f32[2]) = f32[2]
mul(f32[2] f32[3]) ! shapes do not broadcast: a is [2], b is [3] (2 against 3)
div(f32[2,3] f32[1,3]) = f32[2,3]
div(f32[3] f32[3]) = f32[3]
div(i32[2] i32[2]) ! a is i32[2] but must be floating
maximum(f32[2,3] f32[3]) = f32[2,3]
maximum(f32[2,3] f32[2,3]) = f32[2,3]
maximum(i32[2] i32[2]) ! a is i32[2] but must be floating
minimum(f32[2,1] f32[1,3]) = f32[2,3]
minimum(f32[2] f32[3]) ! shapes do not broadcast: a is [2], b is [3] (2 against 3)
heaviside(f32[2,3] f32[3]) = f32[2,3]
heaviside(f32[2] bf16[2]) ! dtypes differ: a is f32[2], b is bf16[2]
add_n(f32[2]) = f32[2]
add_n(f32[2] f32[2] f32[2]) = f32[2]
add_n() ! takes at least 1 input but is given 0
add_n(f32[2] f32[2] f32[1]) ! input 0 is f32[2], input 2 is f32[1]; they must be the same
scale(f32[2]) {alpha=0.5} = f32[2]
scale(f32[2]) {alpha=2} = f32[2]
scale(f32[2]) ! attribute 'alpha' is missing
scale(i32[2]) {alpha=2.0} ! x is i32[2] but must be floating
add_scalar(f32[2]) {alpha=-1.0} = f32[2]
add_scalar(f32[2]) {alpha=[1]} ! attribute 'alpha' is a list of integers but must be a number
neg(f32[2]) = f32[2]
neg(u8[2]) ! x is u8[2] but must be floating, i32 or i64
exp(f32[2]) = f32[2]
exp(i32[2]) ! x is i32[2] but must be floating
log(f32[2]) = f32[2]
log(i32[2]) ! x is i32[2] but must be floating
sqrt(f32[2]) = f32[2]
sqrt(i32[2]) ! x is i32[2] but must be floating
rsqrt(f32[2]) = f32[2]
rsqrt(i32[2]) ! x is i32[2] but must be floating
square(f32[2]) = f32[2]
square(i32[2]) ! x is i32[2] but must be floating
tanh(f32[2]) = f32[2]
tanh(i32[2]) ! x is i32[2] but must be floating
sigmoid(f32[2]) = f32[2]
sigmoid(i32[2]) ! x is i32[2] but must be floating
relu(f32[]) = f32[]
relu(f32[2] f32[2]) ! takes 1 inputs (x) but is given 2
gelu(f16[2,3]) = f16[2,3]
gelu(bool[2]) ! x is bool[2] but must be floating
relu_grad(f32[2] f32[2]) = f32[2]
relu_grad(f32[2] f32[3]) ! dy is f32[2], x is f32[3]; they must be the same
gelu_grad(f32[2] f32[2]) = f32[2]
gelu_grad(f32[2] bf16[2]) ! dtypes differ: dy is f32[2], x is bf16[2]
cast(f32[2]) {dtype=bf16} = bf16[2]
cast(u8[2]) {dtype=f32} = f32[2]
cast(f32[2]) ! attribute 'dtype' is missing
cast(f32[2]) {dtype=double} ! attribute 'dtype' is 'double' but must be f32, bf16, f16, i32, i64, u8 or bool
bias_add(f32[2,3] f32[3]) = f32[2,3]
bias_add(f32[2,3,4,5] f32[3]) {axis=1} = f32[2,3,4,5]
bias_add(f32[2,3] f32[3]) {axis=-1} = f32[2,3]
bias_add(f32[2,3] f32[2]) ! b is f32[2] but dimension 1 of x, which is f32[2,3], has 3
bias_add(f32[2,3] f32[3]) {axis=2} ! attribute 'axis' is 2 but must be in [-1, 1]
bias_add(f32[2,3] f32[1,3]) ! b is f32[1,3] but must have 1 dimensions
bias_add(f32[] f32[1]) ! x is f32[] but must have at least 1 dimensions
bias_grad(f32[2,3]) = f32[3]
bias_grad(f32[2,3,4,5]) {axis=1} = f32[3]
bias_grad(f32[]) ! dy is f32[] but must have at least 1 dimensions
dropout(f32[2,3]) {rate=0.1} = f32[2,3]
dropout(f32[2,3]) {rate=0 key=drop} = f32[2,3]
dropout(f32[2,3]) {rate=0.1 key=-42 seed=7} = f32[2,3]
dropout(f32[2]) ! attribute 'rate' is missing
dropout(f32[2]) {rate=1.0} ! attribute 'rate' is 1 but must be in [0, 1)
dropout(f32[2]) {rate=-0.5} ! attribute 'rate' is -0.5 but must be in [0, 1)
dropout(f32[2]) {rate=0.1 key=0.5} ! attribute 'key' is a number but must be a string

# Reductions and shape

reduce_sum(f32[2,3,4]) {axes=[1]} = f32[2,4]
reduce_sum(f32[2,3,4]) {axes=[0,1]} = f32[4]
reduce_sum(f32[2,3,4]) {axes=[0,2] keepdims=true} = f32[1,3,1]
reduce_sum(f32[2,3]) {axes=[]} = f32[2,3]
reduce_sum(f32[0,3]) {axes=[0]} = f32[3]
reduce_sum(f32[2,3]) ! attribute 'axes' is missing
reduce_sum(f32[2,3]) {axes=[2]} ! attribute 'axes' is [2] but must be ascending dimensions of x, which is f32[2,3]
reduce_sum(f32[2,3]) {axes=[-1]} ! attribute 'axes' is [-1] but must be ascending dimensions of x, which is f32[2,3]
reduce_sum(f32[2,3]) {axes=[1,0]} ! attribute 'axes' is [1,0] but must be ascending dimensions of x, which is f32[2,3]
reduce_sum(f32[2,3]) {axes=[1,1]} ! attribute 'axes' is [1,1] but must be ascending dimensions of x, which is f32[2,3]
reduce_sum(f32[2,3]) {axes=[1] keepdims=yes} ! attribute 'keepdims' is a string but must be a bool
reduce_mean(f32[2,3]) {axes=[0,1]} = f32[]
reduce_mean(f32[2,3]) {axes=[1]} = f32[2]
reduce_mean(f32[2,3]) {axes=[1] keepdims=true} = f32[2,1]
reduce_mean(f32[0,3]) {axes=[0]} ! x is f32[0,3] but must have at least one element
reduce_max(f32[2,3]) {axes=[0]} = f32[3]
reduce_max(f32[2,3]) {axes=[0] keepdims=true} = f32[1,3]
reduce_max(f32[2,0]) {axes=[1]} ! x is f32[2,0] but must have at least one element
reduce_min(f32[2,3,4]) {axes=[0,2]} = f32[3]
reduce_min(f32[0]) {axes=[0]} ! x is f32[0] but must have at least one element
extremum_count(bf16[2,3,4] bf16[2,4]) {axes=[1]} = f32[2,4]
extremum_count(f32[2,3] f32[2,1]) {axes=[1] keepdims=true} = f32[2,1]
extremum_count(f32[2,3] f32[3]) {axes=[1]} ! y is f32[3] but x, which is f32[2,3], needs f32[2]
extremum_grad(f32[2] f32[2,3] f32[2] f32[2]) {axes=[1]} = f32[2,3]
extremum_grad(f32[3] f32[2,3] f32[2] f32[2]) {axes=[1]} ! dy is f32[3] but x, which is f32[2,3], needs f32[2]
extremum_grad(f32[2] f32[2,3] f32[2] f32[3]) {axes=[1]} ! n is f32[3] but x, which is f32[2,3], needs f32[2]
extremum_grad(f32[2] f32[2,3] f32[2] f32[2]) {axes=[2]} ! attribute 'axes' is [2] but must be ascending dimensions of x, which is f32[2,3]
cumsum(f32[2,3]) {axis=1} = f32[2,3]
cumsum(f32[2,3]) {axis=0 reverse=true exclusive=true} = f32[2,3]
cumsum(f32[2,3]) {axis=2} ! attribute 'axis' is 2 but must be in [0, 1]
cumsum(f32[2,3]) {axis=1 reverse=1} ! attribute 'reverse' is an integer but must be a bool
cumsum(i32[2]) {axis=0} ! x is i32[2] but must be floating
sum_to(f32[2,3,4]) {shape=[3,1]} = f32[3,1]
sum_to(f32[2,3]) {shape=[]} = f32[]
sum_to(f32[2,3]) {shape=[2]} ! attribute 'shape': [2] does not broadcast to [2,3]
sum_to(f32[1,3]) {shape=[2,3]} ! attribute 'shape': [2,3] does not broadcast to [1,3]
broadcast_to(f32[3,1]) {shape=[2,3,4]} = f32[2,3,4]
broadcast_to(f32[]) {shape=[2]} = f32[2]
broadcast_to(f32[2]) {shape=[3]} ! attribute 'shape': [2] does not broadcast to [3]
broadcast_to(f32[2,3]) {shape=[3]} ! attribute 'shape': [2,3] does not broadcast to [3]
square_sum(f32[2,3]) = f32[]
square_sum(bf16[2,3]) = f32[]
square_sum(i32[2]) ! x is i32[2] but must be floating
reshape(f32[2,6]) {shape=[3,4]} = f32[3,4]
reshape(i32[1]) {shape=[]} = i32[]
reshape(f32[2,3]) {shape=[4]} ! x is f32[2,3] and has 6 elements, shape [4] has 4
reshape(f32[2,3]) {shape=[4,-1]} ! x is f32[2,3]: attribute 'shape' is [4,-1]: size -1 is negative
reshape(f32[0]) {shape=[0,-1]} ! x is f32[0]: attribute 'shape' is [0,-1]: size -1 is negative
transpose(f32[2,3,4]) {perm=[2,0,1]} = f32[4,2,3]
transpose(i32[]) {perm=[]} = i32[]
transpose(f32[2,3]) {perm=[0]} ! attribute 'perm' is [0] but must permute the dimensions of x, which is f32[2,3]
transpose(f32[2,3]) {perm=[0,0]} ! attribute 'perm' is [0,0] but must permute the dimensions of x, which is f32[2,3]
transpose(f32[2,3]) {perm=[0,-1]} ! attribute 'perm' is [0,-1] but must permute the dimensions of x, which is f32[2,3]
slice(f32[2,5]) {axis=1 start=1 size=3} = f32[2,3]
slice(u8[5]) {axis=0 start=5 size=0} = u8[0]
slice(f32[2,5]) {axis=1 start=3 size=3} ! 3 from 3 is outside dimension 1 of x, which is f32[2,5]
slice(f32[2,5]) {axis=1 start=9223372036854775807 size=3} ! 3 from 9223372036854775807 is outside dimension 1 of x, which is f32[2,5]
slice(f32[2,5]) {axis=2 start=0 size=1} ! attribute 'axis' is 2 but must be in [0, 1]
slice(f32[2,5]) {axis=0 start=-1 size=1} ! attribute 'start' is -1 but must be at least 0
slice(f32[]) {axis=0 start=0 size=1} ! x is f32[] but must have at least 1 dimensions
slice_grad(f32[2,3]) {axis=1 start=1 size=5} = f32[2,5]
slice_grad(f32[2,3]) {axis=1 start=3 size=5} ! dy is f32[2,3]; at 3 of dimension 1 it does not fit into 5
slice_grad(f32[2,3]) {axis=1 start=0 size=2} ! dy is f32[2,3]; at 0 of dimension 1 it does not fit into 2
pad(f32[2,3]) {before=[1,0] after=[0,2]} = f32[3,5]
pad(i32[2]) {before=[1] after=[1] value=7} = i32[4]
pad(bool[]) {before=[] after=[]} = bool[]
pad(f32[2,3]) {before=[1] after=[0,2]} ! attribute 'before' is [1] but must have one size per dimension of x, which is f32[2,3]
pad(f32[2,3]) {before=[1,0] after=[0,-2]} ! attribute 'after' is [0,-2]: size -2 is negative
pad(f32[2,3]) {before=[1,0]} ! attribute 'after' is missing
pad(i32[2]) {before=[1] after=[1] value=0.5} ! attribute 'value' is 0.5 but x is i32[2]
pad(f32[2]) {before=[9223372036854775807] after=[0]} ! the result has more than 2^63 elements along dimension 0
concat(f32[2,3] f32[2,1]) {axis=1} = f32[2,4]
concat(i32[2] i32[0] i32[3]) {axis=0} = i32[5]
concat(f32[2,3] f32[3,3]) {axis=1} ! input 0 is f32[2,3], input 1 is f32[3,3]; they may differ only in dimension 1
concat(f32[2] bf16[2]) {axis=0} ! input 0 is f32[2], input 1 is bf16[2]; they may differ only in dimension 0
concat(f32[2] f32[2,1]) {axis=0} ! input 0 is f32[2], input 1 is f32[2,1]; they may differ only in dimension 0
concat(f32[2,1] f32[2]) {axis=1} ! input 0 is f32[2,1], input 1 is f32[2]; they may differ only in dimension 1
concat() {axis=0} ! takes at least 1 input but is given 0

# Linear algebra

matmul(f32[2,3] f32[3,4]) = f32[2,4]
matmul(f32[5,2,3] f32[3,4]) = f32[5,2,4]
matmul(f32[3] f32[3,4]) = f32[4]
matmul(f32[2,3] f32[4,3]) {transpose_b=true} = f32[2,4]
matmul(f32[2,3] f32[4,3]) ! inner dimensions differ: a is f32[2,3], w is f32[4,3]
matmul(f32[2,3] f32[3,4]) {transpose_b=true} ! inner dimensions differ: a is f32[2,3], w is f32[3,4] (transposed)
matmul(f32[2,3] bf16[3,4]) ! dtypes differ: a is f32[2,3], w is bf16[3,4]
matmul(f32[2,3] f32[2,3,4]) ! w is f32[2,3,4] but must have 2 dimensions
matmul(f32[] f32[3,4]) ! a is f32[] but must have at least 1 dimensions
matmul(f32[2,3] f32[3,4]) {transpose_b=1} ! attribute 'transpose_b' is an integer but must be a bool
matmul(f32[1073741824,1] f32[1,1073741824]) ! the result f32[1073741824,1073741824] has more than 2^58 elements
matmul_wgrad(f32[5,2,3] f32[5,2,4]) = f32[3,4]
matmul_wgrad(f32[2,3] f32[2,4]) {transpose=true} = f32[4,3]
matmul_wgrad(f32[2,3] f32[3,4]) ! leading dimensions differ: x is f32[2,3], dy is f32[3,4]
batch_matmul(f32[5,2,3] f32[5,3,4]) = f32[5,2,4]
batch_matmul(f32[5,3,2] f32[5,3,4]) {transpose_a=true} = f32[5,2,4]
batch_matmul(f32[5,2,3] f32[5,4,3]) {transpose_b=true} = f32[5,2,4]
batch_matmul(f32[6,5,3,2] f32[6,5,4,3]) {transpose_a=true transpose_b=true} = f32[6,5,2,4]
batch_matmul(f32[2,3] f32[3,4]) = f32[2,4]
batch_matmul(f32[5,2,3] f32[6,3,4]) ! leading dimensions differ: a is f32[5,2,3], b is f32[6,3,4]
batch_matmul(f32[5,2,3] f32[3,4]) ! leading dimensions differ: a is f32[5,2,3], b is f32[3,4]
batch_matmul(f32[5,2,3] f32[5,4,3]) ! inner dimensions differ: a is f32[5,2,3], b is f32[5,4,3]
batch_matmul(f32[5,2,3] f32[5,3,4]) {transpose_a=true} ! inner dimensions differ: a is f32[5,2,3] (transposed), b is f32[5,3,4]
batch_matmul(f32[3] f32[3,4]) ! a is f32[3] but must have at least 2 dimensions
softmax(f32[2,3]) = f32[2,3]
softmax(f32[]) ! x is f32[] but must have at least 1 dimensions
softmax_grad(f32[2,3] f32[2,3]) = f32[2,3]
softmax_grad(f32[2,3] f32[2,4]) ! dy is f32[2,3], y is f32[2,4]; they must be the same
layer_norm(f32[2,3,4] f32[4] f32[4]) {epsilon=1e-5} = f32[2,3,4] f32[2,3] f32[2,3]
layer_norm(bf16[2,4] bf16[4] bf16[4]) {epsilon=0} = bf16[2,4] f32[2] f32[2]
layer_norm(f32[2,4] f32[3] f32[4]) {epsilon=1e-5} ! gamma is f32[3] but x, which is f32[2,4], needs f32[4]
layer_norm(f32[2,4] f32[4] f32[2]) {epsilon=1e-5} ! beta is f32[2] but x, which is f32[2,4], needs f32[4]
layer_norm(f32[2,4] f32[4] f32[4]) ! attribute 'epsilon' is missing
layer_norm(f32[2,4] f32[4] f32[4]) {epsilon=-1.0} ! attribute 'epsilon' is -1 but must be at least 0
layer_norm_grad(f32[2,4] f32[2,4] f32[4] f32[2] f32[2]) = f32[2,4] f32[4] f32[4]
layer_norm_grad(f32[2,4] f32[3,4] f32[4] f32[2] f32[2]) ! dy is f32[2,4], x is f32[3,4]; they must be the same
layer_norm_grad(f32[2,4] f32[2,4] f32[4] f32[2] f32[4]) ! rstd is f32[4] but x, which is f32[2,4], needs f32[2]
rms_norm(f32[2,3,4] f32[4]) {epsilon=1e-5} = f32[2,3,4] f32[2,3]
rms_norm(bf16[4] bf16[4]) {epsilon=0} = bf16[4] f32[]
rms_norm(f32[2,4] f32[3]) {epsilon=1e-5} ! gamma is f32[3] but x, which is f32[2,4], needs f32[4]
rms_norm(f32[2,4] f32[4]) {epsilon=-1.0} ! attribute 'epsilon' is -1 but must be at least 0
rms_norm(f32[2,4] f32[4]) ! attribute 'epsilon' is missing
rms_norm_grad(f32[2,4] f32[2,4] f32[4] f32[2]) = f32[2,4] f32[4]
rms_norm_grad(f32[2,4] f32[3,4] f32[4] f32[2]) ! dy is f32[2,4], x is f32[3,4]; they must be the same
rms_norm_grad(f32[2,4] f32[2,4] f32[4] f32[4]) ! rstd is f32[4] but x, which is f32[2,4], needs f32[2]
channel_variance(f32[2,3,4,4] f32[3]) = f32[3]
channel_variance(bf16[2,3] f32[3]) = f32[3]
channel_variance(f32[2,3] f32[2]) ! mean is f32[2] but x, which is f32[2,3], needs f32[3]
channel_variance(f32[0,3] f32[3]) ! x is f32[0,3] but must have at least one element
channel_variance(f32[3] f32[3]) ! x is f32[3] but must have at least 2 dimensions
batch_norm(f32[2,3,4] f32[3] f32[3] f32[3] f32[3]) {epsilon=1e-5} = f32[2,3,4]
batch_norm(bf16[2,3] bf16[3] bf16[3] f32[3] f32[3]) {epsilon=1e-5 training=false} = bf16[2,3]
batch_norm(f32[2,3] f32[3] f32[2] f32[3] f32[3]) {epsilon=1e-5} ! beta is f32[2] but x, which is f32[2,3], needs f32[3]
batch_norm(f32[2,3] f32[3] f32[3] f32[3] f32[4]) {epsilon=1e-5} ! var is f32[4] but x, which is f32[2,3], needs f32[3]
batch_norm(f32[2,3] f32[3] f32[3] f32[3] f32[3]) {epsilon=1e-5 training=1} ! attribute 'training' is an integer but must be a bool
batch_norm(f32[2,3] f32[3] f32[3] f32[3] f32[3]) {epsilon=-1e-5} ! attribute 'epsilon' is -1e-05 but must be at least 0
batch_norm_sums(f32[2,3,4] f32[2,3,4] f32[3] f32[3]) {epsilon=1e-5} = f32[3] f32[3]
batch_norm_sums(f32[2,3] f32[2,4] f32[4] f32[4]) {epsilon=1e-5} ! dy is f32[2,3], x is f32[2,4]; they must be the same
batch_norm_dx(f32[2,3,4] f32[2,3,4] f32[3] f32[3] f32[3] f32[3] f32[3]) {epsilon=1e-5} = f32[2,3,4]
batch_norm_dx(f32[2,3] f32[2,3] f32[3] f32[3] f32[3] f32[2] f32[3]) {epsilon=1e-5} ! dgamma is f32[2] but x, which is f32[2,3], needs f32[3]
batch_norm_dx(f32[2,3] f32[2,3] f32[3] f32[3] f32[3] f32[3] f32[3]) ! attribute 'epsilon' is missing
embedding(f32[10,4] i32[2,3]) = f32[2,3,4]
embedding(f32[10,4] i32[]) = f32[4]
embedding(f32[10,4] i64[2]) ! ids is i64[2] but must be i32
embedding(f32[10] i32[2]) ! w is f32[10] but must have 2 dimensions
embedding_grad(f32[2,3,4] i32[2,3]) {rows=10} = f32[10,4]
embedding_grad(f32[2,3,4] i32[2]) {rows=10} ! ids is i32[2] but dy, which is f32[2,3,4], needs i32[2,3]
embedding_grad(f32[2,4] i32[2]) ! attribute 'rows' is missing
attention(f32[2,5,6] f32[2,5,6] f32[2,5,6]) {heads=3 causal=true} = f32[2,5,6] f32[2,3,5]
attention(f32[2,5,6] f32[2,5,6] f32[2,5,6]) {heads=1} = f32[2,5,6] f32[2,1,5]
attention(f32[2,5,6] f32[2,4,6] f32[2,5,6]) {heads=3} ! q is f32[2,5,6], k is f32[2,4,6]; they must be the same
attention(f32[2,5,6] f32[2,5,6] f32[2,5,6]) {heads=4} ! attribute 'heads' is 4 but must divide the last dimension of q, which is f32[2,5,6]
attention(f32[2,5,6] f32[2,5,6] f32[2,5,6]) {heads=0} ! attribute 'heads' is 0 but must be at least 1
attention(f32[5,6] f32[5,6] f32[5,6]) {heads=3} ! q is f32[5,6] but must have 3 dimensions
attention_grad(f32[2,5,6] f32[2,5,6] f32[2,5,6] f32[2,5,6] f32[2,5,6] f32[2,3,5]) {heads=3} = f32[2,5,6] f32[2,5,6] f32[2,5,6]
attention_grad(f32[2,5,6] f32[2,5,6] f32[2,5,6] f32[2,5,6] f32[2,5,6] f32[2,5,3]) {heads=3} ! lse is f32[2,5,3] but q, which is f32[2,5,6], needs f32[2,3,5]
attention_grad(f32[2,5,7] f32[2,5,6] f32[2,5,6] f32[2,5,6] f32[2,5,6] f32[2,3,5]) {heads=3} ! dout is f32[2,5,7], q is f32[2,5,6]; they must be the same
softmax_cross_entropy(f32[2,3,7] i32[2,3]) = f32[2,3] f32[2,3]
softmax_cross_entropy(bf16[7] i32[]) = f32[] f32[]
softmax_cross_entropy(f32[2,7] i32[3]) ! labels is i32[3] but logits, which is f32[2,7], needs i32[2]
softmax_cross_entropy(f32[2,7] f32[2]) ! labels is f32[2] but must be i32
softmax_cross_entropy_grad(f32[2] f32[2,7] i32[2] f32[2]) = f32[2,7]
softmax_cross_entropy_grad(f32[3] f32[2,7] i32[2] f32[2]) ! dloss is f32[3] but logits, which is f32[2,7], needs f32[2]
softmax_cross_entropy_grad(f32[2] f32[2,7] i32[2] bf16[2]) ! lse is bf16[2] but must be f32
top1_correct(f32[2,7] i32[2]) = f32[2]
top1_correct(f32[2,7] i32[7]) ! labels is i32[7] but logits, which is f32[2,7], needs i32[2]

# Convolution

conv2d(f32[2,3,8,9] f32[4,3,5,3]) {stride=1 padding=0} = f32[2,4,4,7]
conv2d(f32[2,3,8,8] f32[4,3,5,5]) {stride=1 padding=2} = f32[2,4,8,8]
conv2d(f32[2,3,8,9] f32[4,3,3,3]) {stride=2 padding=1} = f32[2,4,4,5]
conv2d(f32[2,3,8,8] f32[4,2,3,3]) {stride=1 padding=0} ! channels differ: x is [2,3,8,8], k is [4,2,3,3] (3 against 2)
conv2d(f32[2,3,2,8] f32[4,3,5,5]) {stride=1 padding=1} ! the kernel does not fit: x is [2,3,2,8] with padding 1, k is [4,3,5,5]
conv2d(f32[2,3,8,8] f32[4,3,0,3]) {stride=1 padding=0} ! the kernel does not fit: x is [2,3,8,8] with padding 0, k is [4,3,0,3]
conv2d(f32[2,3,8,8] f32[4,3,3,3]) {stride=0 padding=0} ! attribute 'stride' is 0 but must be in [1, 1073741824]
conv2d(f32[2,3,8,8] f32[4,3,3,3]) {stride=1} ! attribute 'padding' is missing
conv2d(f32[2,3,8] f32[4,3,3,3]) {stride=1 padding=0} ! x is f32[2,3,8] but must have 4 dimensions
conv2d_dgrad(f32[2,4,4,5] f32[4,3,3,3]) {stride=2 padding=1 height=8 width=9} = f32[2,3,8,9]
conv2d_dgrad(f32[2,4,4,5] f32[4,3,3,3]) {stride=2 padding=1 height=8 width=11} ! dy is f32[2,4,4,5] but a convolution of [2,3,8,11] with [4,3,3,3], stride 2 and padding 1 needs f32[2,4,4,6]
conv2d_dgrad(f32[2,5,4,5] f32[4,3,3,3]) {stride=2 padding=1 height=8 width=9} ! dy is f32[2,5,4,5] but a convolution of [2,3,8,9] with [4,3,3,3], stride 2 and padding 1 needs f32[2,4,4,5]
conv2d_wgrad(f32[2,3,8,9] f32[2,4,4,5]) {stride=2 padding=1 kernel_height=3 kernel_width=3} = f32[4,3,3,3]
conv2d_wgrad(f32[2,3,8,9] f32[2,4,4,5]) {stride=2 padding=1 kernel_height=3 kernel_width=5} ! dy is f32[2,4,4,5] but a convolution of [2,3,8,9] with [4,3,3,5], stride 2 and padding 1 needs f32[2,4,4,4]
max_pool2d(f32[2,3,8,9]) {kernel=2 stride=2} = f32[2,3,4,4] i32[2,3,4,4]
max_pool2d(f32[2,3,8,9]) {kernel=3 stride=1} = f32[2,3,6,7] i32[2,3,6,7]
max_pool2d(f32[2,3,8,9]) {kernel=9 stride=1} ! attribute 'kernel' is 9 but dimension 2 of x, which is f32[2,3,8,9], has 8
max_pool2d(f32[2,3,8,9]) {kernel=2 stride=0} ! attribute 'stride' is 0 but must be at least 1
max_pool2d_grad(f32[2,3,4,4] i32[2,3,4,4]) {height=8 width=9} = f32[2,3,8,9]
max_pool2d_grad(f32[2,3,4,4] i32[2,3,4,3]) {height=8 width=9} ! index is i32[2,3,4,3] but dy, which is f32[2,3,4,4], needs i32[2,3,4,4]
max_pool2d_grad(f32[2,3,4,4] i32[2,3,4,4]) {height=3 width=9} ! attribute 'height' is 3 but must be at least 4

# Parts of a softmax

softmax_sums(f32[2,3,7] i32[2,3] f32[2,3]) = f32[2,3] f32[2,3]
softmax_sums(bf16[7] i32[] bf16[]) = f32[] f32[]
softmax_sums(f32[2,7] i32[3] f32[2]) ! labels is i32[3] but x, which is f32[2,7], needs i32[2]
softmax_sums(f32[2,7] i32[2] f32[2,1]) ! m is f32[2,1] but x, which is f32[2,7], needs f32[2]
softmax_sums(f32[] i32[] f32[]) ! x is f32[] but must have at least 1 dimensions
softmax_loss(f32[2,3] f32[2,3] f32[2,3]) = f32[2,3] f32[2,3]
softmax_loss(bf16[2] f32[2] f32[2]) = f32[2] f32[2]
softmax_loss(f32[2] f32[3] f32[2]) ! s is f32[3] but m, which is f32[2], needs f32[2]
softmax_loss(f32[2] f32[2] f32[3]) ! z is f32[3] but m, which is f32[2], needs f32[2]
softmax_loss(f32[2] bf16[2] f32[2]) ! s is bf16[2] but must be f32
exp_sum(f32[2,3,7] f32[2,3]) = f32[2,3]
exp_sum(bf16[2,7] bf16[2]) = f32[2]
exp_sum(f32[2,7] f32[7]) ! m is f32[7] but x, which is f32[2,7], needs f32[2]
exp_sum(bf16[2,7] f32[2]) ! dtypes differ: x is bf16[2,7], m is f32[2]
softmax_apply(f32[2,3,7] f32[2,3] f32[2,3]) = f32[2,3,7]
softmax_apply(bf16[2,7] bf16[2] f32[2]) = bf16[2,7]
softmax_apply(f32[2,7] f32[2] f32[3]) ! s is f32[3] but x, which is f32[2,7], needs f32[2]
softmax_apply(bf16[2,7] bf16[2] bf16[2]) ! s is bf16[2] but must be f32
row_dot(f32[2,3,7] f32[2,3,7]) = f32[2,3]
row_dot(bf16[2,7] bf16[2,7]) = f32[2]
row_dot(f32[2,7] f32[7]) ! a is f32[2,7], b is f32[7]; they must be the same
row_dot(f32[] f32[]) ! a is f32[] but must have at least 1 dimensions
softmax_grad_apply(f32[2,7] f32[2,7] f32[2]) = f32[2,7]
softmax_grad_apply(bf16[2,7] bf16[2,7] f32[2]) = bf16[2,7]
softmax_grad_apply(f32[2,7] f32[2,6] f32[2]) ! dy is f32[2,7], y is f32[2,6]; they must be the same
softmax_grad_apply(f32[2,7] f32[2,7] f32[7]) ! d is f32[7] but dy, which is f32[2,7], needs f32[2]
first_index(f32[2,3,7] f32[2,3]) = i32[2,3]
first_index(bf16[7] bf16[]) = i32[]
first_index(f32[2,7] f32[7]) ! m is f32[7] but x, which is f32[2,7], needs f32[2]
first_index(f32[2,2147483648] f32[2]) ! x is f32[2,2147483648], more columns than an i32 can number
equal(i32[2,3] i32[2,3]) = f32[2,3]
equal(i32[2] i32[]) ! a is i32[2], b is i32[]; they must be the same
equal(f32[2] f32[2]) ! a is f32[2] but must be i32

# Indices

gather(f32[5,4] i32[2,3]) {axis=0} = f32[2,3,4]
gather(f32[2,5,4] i32[3]) {axis=1} = f32[2,3,4]
gather(bf16[2,5] i32[]) {axis=1} = bf16[2]
gather(f32[5,4] i32[0]) {axis=0} = f32[0,4]
gather(f32[5,4] i32[2]) {axis=2} ! attribute 'axis' is 2 but must be in [0, 1]
gather(f32[5,4] i32[2]) ! attribute 'axis' is missing
gather(f32[5,4] i64[2]) {axis=0} ! ids is i64[2] but must be i32
gather(i32[5,4] i32[2]) {axis=0} ! x is i32[5,4] but must be floating
scatter_add(f32[2,3,4] i32[2,3]) {axis=0 size=5} = f32[5,4]
scatter_add(f32[2,3,4] i32[3]) {axis=1 size=5} = f32[2,5,4]
scatter_add(f32[2,3] i32[]) {axis=2 size=5} = f32[2,3,5]
scatter_add(bf16[3] i32[3]) {axis=0 size=0} = bf16[0]
scatter_add(f32[2,3,4] i32[3,4]) {axis=0 size=5} ! ids is i32[3,4] but updates, which is f32[2,3,4], with axis 0 needs i32[2,3]
scatter_add(f32[2,3,4] i32[2,3]) {axis=2 size=5} ! attribute 'axis' is 2 but must be in [0, 1]
scatter_add(f32[2,3] i32[2,3,4]) {axis=0 size=5} ! ids is i32[2,3,4], which is more dimensions than updates, f32[2,3], has
scatter_add(f32[2,3] i32[2]) {axis=0 size=-1} ! attribute 'size' is -1 but must be at least 0
take_along(f32[2,3,7] i32[2,3,4]) = f32[2,3,4]
take_along(bf16[7] i32[9]) = bf16[9]
take_along(f32[2,7] i32[3,4]) ! leading dimensions differ: x is f32[2,7], ids is i32[3,4]
take_along(f32[2,7] i32[2]) ! leading dimensions differ: x is f32[2,7], ids is i32[2]
take_along(f32[2,7] i32[]) ! ids is i32[] but must have at least 1 dimensions
put_along(f32[2,3,4] i32[2,3,4]) {columns=7} = f32[2,3,7]
put_along(bf16[9] i32[9]) {columns=7} = bf16[7]
put_along(f32[2,4] i32[2,3]) {columns=7} ! ids is i32[2,3] but dy, which is f32[2,4], needs i32[2,4]
put_along(f32[2,4] i32[2,4]) ! attribute 'columns' is missing
put_along(f32[2,4] i32[2,4]) {columns=-1} ! attribute 'columns' is -1 but must be at least 0
top_k(f32[2,3,7]) {k=4} = f32[2,3,4] i32[2,3,4]
top_k(bf16[7]) {k=7} = bf16[7] i32[7]
top_k(f32[2,7]) {k=8} ! attribute 'k' is 8 but must be in [0, 7]
top_k(f32[2,7]) ! attribute 'k' is missing
top_k(f32[2147483648]) {k=1} ! x is f32[2147483648], more columns than an i32 can number
top_k(f32[]) {k=0} ! x is f32[] but must have at least 1 dimensions

# Training

clip_scale(f32[]) {max_norm=1.0} = f32[] f32[]
clip_scale(f32[]) = f32[] f32[]
clip_scale(f32[1]) ! s is f32[1] but must have 0 dimensions
clip_scale(f32[]) {max_norm=-1.0} ! attribute 'max_norm' is -1 but must be at least 0
lr_schedule(i64[]) {base=0.001 warmup=10 total=100 min_ratio=0.1 kind=cosine} = f32[]
lr_schedule(i64[]) {base=1 kind=constant} = f32[]
lr_schedule(i32[]) {base=0.001 kind=constant} ! step is i32[] but must be i64
lr_schedule(i64[]) {base=0.001 kind=step} ! attribute 'kind' is 'step' but must be 'constant', 'cosine' or 'linear'
lr_schedule(i64[]) {base=0.001 kind=linear warmup=-1} ! attribute 'warmup' is -1 but must be at least 0
adamw_update(f32[2] f32[2] f32[2] f32[2] f32[] f32[] i64[]) {beta1=0.9 beta2=0.95 epsilon=1e-8 weight_decay=0.1} =
adamw_update(f32[2] f32[2] f32[2] f32[3] f32[] f32[] i64[]) {beta1=0.9 beta2=0.95 epsilon=1e-8} ! g is f32[3] but w needs f32[2]
adamw_update(f32[2] f32[1] f32[2] f32[2] f32[] f32[] i64[]) {beta1=0.9 beta2=0.95 epsilon=1e-8} ! m is f32[1] but w needs f32[2]
adamw_update(f32[2] f32[2] f32[2] f32[2] f32[] f32[] i64[]) {beta1=0.9 beta2=1.0 epsilon=1e-8} ! attribute 'beta2' is 1 but must be in [0, 1)
adamw_update(bf16[2] f32[2] f32[2] f32[2] f32[] f32[] i64[]) {beta1=0.9 beta2=0.95 epsilon=1e-8} ! w is bf16[2] but must be f32
ema_update(f32[2] f32[2]) {decay=0.9} =
ema_update(f32[2] f32[3]) {decay=0.9} ! v is f32[2], x is f32[3]; they must be the same
ema_update(f32[2] f32[2]) {decay=1.0} ! attribute 'decay' is 1 but must be in [0, 1)
sgd_update(f32[2] f32[2] f32[2] f32[] f32[]) {momentum=0.9 weight_decay=0.1 nesterov=true} =
sgd_update(f32[2] f32[2] f32[2] f32[] f32[]) =
sgd_update(f32[2] f32[3] f32[2] f32[] f32[]) ! u is f32[3] but w needs f32[2]
sgd_update(f32[2] f32[2] f32[2] f32[] f32[2]) ! scale is f32[2] but must have 0 dimensions

# Generation

sample_token(f32[1,8,256] i32[]) {temperature=0} = i32[]
sample_token(f32[1,8,256] i32[]) {temperature=0.8 key=draw} = i32[]
sample_token(f32[2,8,256] i32[]) {temperature=0} ! logits is f32[2,8,256] but must be one sequence of at least one token
sample_token(f32[1,8,0] i32[]) {temperature=0} ! logits is f32[1,8,0] and has no class to draw
sample_token(f32[1,8,256] i32[]) {temperature=-1} ! attribute 'temperature' is -1 but must be at least 0
sample_token(f32[1,8,256] i32[]) ! attribute 'temperature' is missing
append_token(i32[1,8] i32[] i32[]) =
append_token(i32[2,8] i32[] i32[]) ! tokens is i32[2,8] but must be one sequence of at least one token
append_token(i32[1,8] i32[1] i32[]) ! length is i32[1] but must have 0 dimensions
)";

absl::StatusOr<std::vector<TensorType>> ParseTypes(absl::string_view text) {
  std::vector<TensorType> types;
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    OF_ASSIGN_OR_RETURN(TensorType type, TensorType::Parse(word));
    types.push_back(std::move(type));
  }
  return types;
}

// true, 12, 1e-5, [1,2], 'text' or text.
Attr ParseAttr(absl::string_view text) {
  int64_t integer = 0;
  double number = 0;
  if (text == "true" || text == "false") return text == "true";
  if (absl::SimpleAtoi(text, &integer)) return integer;
  if (absl::SimpleAtod(text, &number)) return number;
  if (absl::ConsumePrefix(&text, "[") && absl::ConsumeSuffix(&text, "]")) {
    std::vector<int64_t> list;
    for (absl::string_view item : absl::StrSplit(text, ',', absl::SkipEmpty())) {
      if (absl::SimpleAtoi(item, &integer)) list.push_back(integer);
    }
    return list;
  }
  absl::ConsumePrefix(&text, "'");
  absl::ConsumeSuffix(&text, "'");
  return std::string(text);
}

absl::StatusOr<InferCase> ParseCase(absl::string_view line) {
  InferCase result;
  result.line = std::string(line);
  const absl::Status malformed = absl::InvalidArgumentError(absl::StrCat("malformed case: ", line));
  // The first mark after the closing parenthesis divides the call from the answer; error texts may hold any character.
  const size_t mark = std::min(line.find(" = "), line.find(" ! "));
  const bool no_outputs = mark == absl::string_view::npos && absl::ConsumeSuffix(&line, " =");
  if (mark == absl::string_view::npos && !no_outputs) return malformed;
  absl::string_view call = line.substr(0, mark);
  absl::string_view answer = no_outputs ? "" : line.substr(mark + 3);
  if (!no_outputs && line[mark + 1] == '!') result.error = std::string(answer);
  if (result.error.empty()) {
    OF_ASSIGN_OR_RETURN(result.outputs, ParseTypes(answer));
  }
  if (absl::ConsumeSuffix(&call, "}")) {
    const size_t brace = call.rfind(" {");
    if (brace == absl::string_view::npos) return malformed;
    for (absl::string_view item : absl::StrSplit(call.substr(brace + 2), ' ')) {
      const std::pair<absl::string_view, absl::string_view> attr = absl::StrSplit(item, absl::MaxSplits('=', 1));
      result.attrs.Set(std::string(attr.first), ParseAttr(attr.second));
    }
    call = call.substr(0, brace);
  }
  const size_t open = call.find('(');
  if (open == absl::string_view::npos || !absl::ConsumeSuffix(&call, ")")) return malformed;
  result.op = std::string(call.substr(0, open));
  OF_ASSIGN_OR_RETURN(result.inputs, ParseTypes(call.substr(open + 1)));
  return result;
}

}  // namespace

absl::StatusOr<std::vector<InferCase>> InferCases() {
  std::vector<InferCase> cases;
  for (absl::string_view line : absl::StrSplit(kCases, '\n', absl::SkipEmpty())) {
    if (line.front() == '#') continue;
    OF_ASSIGN_OR_RETURN(InferCase parsed, ParseCase(line));
    cases.push_back(std::move(parsed));
  }
  return cases;
}

}  // namespace oneflow::testing
