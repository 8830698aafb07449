//! Elementary functions of `f32` whose every bit is defined by this file.
//!
//! # Invariants
//! - Branch-free: each function is straight-line arithmetic and selects, so loops over it
//!   vectorise, and a lane, a vector width or an instruction set never changes a bit.
//! - Only IEEE additions, multiplications, divisions and integer operations, in the written
//!   order and without fused multiply-add: the same text compiled by CUDA with `--fmad=false`
//!   gives the same bits.
//! - NaN gives NaN (sign and payload undefined), infinities give their limits.
//! - Denormal arguments are kept. Where [`exp`] would be denormal it is +0, and what is built on
//!   it follows; no other function flushes.
//!
//! Errors against the exact value, in units of the last place, over all finite arguments with
//! normal results: the tests sweep them and find at most 1.0 for `exp`, 0.8 for `ln`, 1.2 for
//! `tanh`, 2.0 for `sigmoid` and 1.8 for `softplus`.

/// log₂ e.
const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// Upper part of ln 2, nine bits: its product with an exponent is exact.
const LN2_HIGH: f32 = 355.0 / 512.0;
/// ln 2 − [`LN2_HIGH`].
const LN2_LOW: f32 = -2.121_944_4e-4;
/// Adding and subtracting 1.5·2²³ rounds a small number to an integer, ties to even.
const ROUND: f32 = 12_582_912.0;
/// Smallest argument whose exponential is a normal number.
const EXP_MIN: f32 = -87.336_54;
/// Largest argument whose exponential is finite.
const EXP_MAX: f32 = 88.722_83;
/// Bits of √½ rounded down: mantissas are taken from [√½, √2).
const SQRT_HALF_BITS: u32 = 0x3f35_04f3;

/// e to the power of `x`; above 88.722 83 infinity.
///
/// Below −87.336 54, where the result would be denormal, it is +0: processors that handle
/// denormals in microcode would take a hundred times longer there, and masks reach it.
///
/// Source: the reduction and the polynomial of Moshier's Cephes `expf`.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    let shifted = x * LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = x - n * LN2_HIGH;
    let r = r - n * LN2_LOW;
    let mut p = 1.987_569_1e-4;
    p = p * r + 1.398_199_9e-3;
    p = p * r + 8.333_452e-3;
    p = p * r + 4.166_579_6e-2;
    p = p * r + 1.666_666_5e-1;
    p = p * r + 0.5;
    let y = p * (r * r) + r + 1.0;
    // The low bits of `shifted` are n; added to the exponent of y they multiply it by 2ⁿ.
    let scaled = f32::from_bits(y.to_bits().wrapping_add(shifted.to_bits() << 23));
    let e = if x < EXP_MIN { 0.0 } else { scaled };
    let e = if x > EXP_MAX { f32::INFINITY } else { e };
    if x.is_nan() { x } else { e }
}

/// Natural logarithm; of ±0 negative infinity, below zero NaN.
///
/// Source: the polynomial of Moshier's Cephes `logf` on mantissas from [√½, √2).
#[inline(always)]
pub fn ln(x: f32) -> f32 {
    let is_denormal = x < f32::MIN_POSITIVE;
    let scaled = if is_denormal { x * 8_388_608.0 } else { x };
    let extra = if is_denormal { -23.0 } else { 0.0 };
    let offset = scaled.to_bits().wrapping_sub(SQRT_HALF_BITS);
    let e = ((offset as i32) >> 23) as f32 + extra;
    let m = f32::from_bits((offset & 0x007f_ffff).wrapping_add(SQRT_HALF_BITS));
    let f = m - 1.0;
    let z = f * f;
    let mut p = 7.037_683_6e-2;
    p = p * f - 1.151_461e-1;
    p = p * f + 1.167_699_9e-1;
    p = p * f - 1.242_014_1e-1;
    p = p * f + 1.424_932_3e-1;
    p = p * f - 1.666_805_8e-1;
    p = p * f + 2.000_071_5e-1;
    p = p * f - 2.499_999_4e-1;
    p = p * f + 3.333_333e-1;
    let y = f * z * p + e * LN2_LOW - 0.5 * z;
    let y = f + y + e * LN2_HIGH;
    let y = if x < f32::INFINITY { y } else { x };
    let y = if x > 0.0 { y } else { f32::NAN };
    if x == 0.0 { f32::NEG_INFINITY } else { y }
}

/// Hyperbolic tangent; odd in every bit, ±0 gives ±0.
///
/// Source: below 0.625 the polynomial of Moshier's Cephes `tanhf`, above it 1 − 2/(e²ˣ + 1).
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let a = x.abs();
    let z = a * a;
    let mut p = -5.704_988_7e-3;
    p = p * z + 2.063_909e-2;
    p = p * z - 5.373_971_6e-2;
    p = p * z + 1.333_144_2e-1;
    p = p * z - 3.333_328e-1;
    let small = a + a * z * p;
    let large = 1.0 - 2.0 / (exp(a + a) + 1.0);
    let y = if a < 0.625 { small } else { large };
    y.copysign(x)
}

/// The logistic function 1 / (1 + e⁻ˣ).
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    let e = exp(-x.abs());
    let numerator = if x < 0.0 { e } else { 1.0 };
    numerator / (1.0 + e)
}

/// log(1 + eˣ), without overflow and with full relative precision for negative `x`.
///
/// Source: max(x, 0) + log1p(e^−|x|), log1p as ln u + (e − (u − 1)) / u with u = 1 + e
/// (Kahan's correction).
#[inline(always)]
pub fn softplus(x: f32) -> f32 {
    let e = exp(-x.abs());
    let u = 1.0 + e;
    let log1p = ln(u) + (e - (u - 1.0)) / u;
    let positive = if x > 0.0 { x } else { 0.0 };
    positive + log1p
}

/// Rounds to the nearest bf16 value (8-bit mantissa, the leading one included), ties to even.
///
/// Above the largest bf16 it gives infinity; NaN stays NaN; denormals are rounded, not flushed:
/// as `cvt.rn.bf16.f32` does.
#[inline(always)]
pub fn round_bf16(x: f32) -> f32 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) & 0xffff_0000;
    // A NaN whose payload sits in the low half would become an infinity, so its quiet bit is set.
    let nan = (bits & 0xffff_0000) | 0x0040_0000;
    f32::from_bits(if x.is_nan() { nan } else { rounded })
}

/// Rounds to the nearest TF32 value (11-bit mantissa, the leading one included), ties away
/// from zero.
///
/// The rule is that of `cvt.rna.tf32.f32`, the only rounding to TF32 that every device since
/// sm_80 has, and what a GEMM must apply to its inputs, because tensor cores would otherwise
/// drop the low 13 bits. Overflow gives infinity; NaN stays NaN; denormals are rounded.
///
/// Source: PTX ISA, `cvt` with `.rna`.
#[inline(always)]
pub fn round_tf32(x: f32) -> f32 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x1000) & 0xffff_e000;
    let nan = (bits & 0xffff_e000) | 0x0040_0000;
    f32::from_bits(if x.is_nan() { nan } else { rounded })
}

#[cfg(test)]
mod tests;
