// Elementary functions and the scalar ops.
//
// For float, the bits are those of src/engine/math.rs: the same additions, multiplications and
// divisions in the same order, compiled without fused multiply-add. Constants stand with the
// digits that file has. For double, the device's own functions, as the CPU takes its library's.

// e to the power of x; +0 where the result would be denormal.
DEV float m_exp(float x) {
    float shifted = x * 1.44269504088896340736f + 12582912.0f;
    float n = shifted - 12582912.0f;
    float r = x - n * 0.693359375f;
    r = r - n * -2.1219444e-4f;
    float p = 1.9875691e-4f;
    p = p * r + 1.3981999e-3f;
    p = p * r + 8.333452e-3f;
    p = p * r + 4.1665796e-2f;
    p = p * r + 1.6666665e-1f;
    p = p * r + 0.5f;
    float y = p * (r * r) + r + 1.0f;
    // The low bits of `shifted` are n; added to the exponent of y they multiply it by 2^n.
    float e = __uint_as_float(__float_as_uint(y) + (__float_as_uint(shifted) << 23));
    e = x < -87.33654f ? 0.0f : e;
    e = x > 88.72283f ? INF_F : e;
    return x != x ? x : e;
}

// Natural logarithm; of 0 negative infinity, below 0 NaN.
DEV float m_ln(float x) {
    bool is_denormal = x < 1.17549435e-38f;
    float scaled = is_denormal ? x * 8388608.0f : x;
    float extra = is_denormal ? -23.0f : 0.0f;
    unsigned offset = __float_as_uint(scaled) - 0x3f3504f3u;
    float e = (float)((int)offset >> 23) + extra;
    float m = __uint_as_float((offset & 0x007fffffu) + 0x3f3504f3u);
    float f = m - 1.0f;
    float z = f * f;
    float p = 7.0376836e-2f;
    p = p * f - 1.151461e-1f;
    p = p * f + 1.1676999e-1f;
    p = p * f - 1.2420141e-1f;
    p = p * f + 1.4249323e-1f;
    p = p * f - 1.6668058e-1f;
    p = p * f + 2.0000715e-1f;
    p = p * f - 2.4999994e-1f;
    p = p * f + 3.333333e-1f;
    float y = f * z * p + e * -2.1219444e-4f - 0.5f * z;
    y = f + y + e * 0.693359375f;
    y = x < INF_F ? y : x;
    y = x > 0.0f ? y : NAN_F;
    return x == 0.0f ? -INF_F : y;
}

DEV float m_tanh(float x) {
    float a = fabsf(x);
    float z = a * a;
    float p = -5.7049887e-3f;
    p = p * z + 2.063909e-2f;
    p = p * z - 5.3739716e-2f;
    p = p * z + 1.3331442e-1f;
    p = p * z - 3.333328e-1f;
    float small = a + a * z * p;
    float large = 1.0f - 2.0f / (m_exp(a + a) + 1.0f);
    return copysignf(a < 0.625f ? small : large, x);
}

DEV float m_sigmoid(float x) {
    float e = m_exp(-fabsf(x));
    float numerator = x < 0.0f ? e : 1.0f;
    return numerator / (1.0f + e);
}

// max(x, 0) + log1p(e^-|x|), log1p with Kahan's correction.
DEV float m_softplus(float x) {
    float e = m_exp(-fabsf(x));
    float u = 1.0f + e;
    float log1p = m_ln(u) + (e - (u - 1.0f)) / u;
    float positive = x > 0.0f ? x : 0.0f;
    return positive + log1p;
}

DEV double m_exp(double x) { return exp(x); }
DEV double m_ln(double x) { return log(x); }
DEV double m_tanh(double x) { return tanh(x); }
DEV double m_sigmoid(double x) {
    double e = exp(-fabs(x));
    double numerator = x < 0.0 ? e : 1.0;
    return numerator / (1.0 + e);
}
DEV double m_softplus(double x) {
    double positive = x > 0.0 ? x : 0.0;
    return positive + log1p(exp(-fabs(x)));
}

DEV float m_abs(float x) { return fabsf(x); }
DEV double m_abs(double x) { return fabs(x); }
DEV float m_sqrt(float x) { return sqrtf(x); }
DEV double m_sqrt(double x) { return sqrt(x); }
DEV float m_floor(float x) { return floorf(x); }
DEV double m_floor(double x) { return floor(x); }

// The scalar ops, R being float or double, with the answers of src/engine/op/scalar.rs for NaN,
// signed zeros and ties. Comparisons give 1 or 0.
template <class R> DEV R op_add(R a, R b) { return a + b; }
template <class R> DEV R op_sub(R a, R b) { return a - b; }
template <class R> DEV R op_mul(R a, R b) { return a * b; }
template <class R> DEV R op_div(R a, R b) { return a / b; }
template <class R> DEV R op_max(R a, R b) { return a > b || a != a ? a : b; }
template <class R> DEV R op_min(R a, R b) { return a < b || a != a ? a : b; }
template <class R> DEV R op_neg(R a) { return -a; }
template <class R> DEV R op_abs(R a) { return m_abs(a); }
template <class R> DEV R op_sqrt(R a) { return m_sqrt(a); }
template <class R> DEV R op_exp(R a) { return m_exp(a); }
template <class R> DEV R op_ln(R a) { return m_ln(a); }
template <class R> DEV R op_tanh(R a) { return m_tanh(a); }
template <class R> DEV R op_sigmoid(R a) { return m_sigmoid(a); }
template <class R> DEV R op_softplus(R a) { return m_softplus(a); }
template <class R> DEV R op_relu(R a) { return a > R(0) || a != a ? a : R(0); }
template <class R> DEV R op_floor(R a) { return m_floor(a); }
template <class R> DEV R op_less(R a, R b) { return a < b ? R(1) : R(0); }
template <class R> DEV R op_lessequal(R a, R b) { return a <= b ? R(1) : R(0); }
template <class R> DEV R op_equal(R a, R b) { return a == b ? R(1) : R(0); }
template <class R> DEV R op_select(R a, R b, R c) { return a != R(0) ? b : c; }
template <class R> DEV R op_isfinite(R a) { return m_abs(a) < R(INF_F) ? R(1) : R(0); }
