/* Vectors of 8 floats: AVX2 intrinsics where the machine has them, otherwise the compiler's own vector type.
 *
 * Knows nothing of the kernels. Every sum has one fixed order, written out, so that no compiler may choose another.
 */
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define HAS_AVX2 1
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

typedef float v8 __attribute__((vector_size(32)));
typedef int32_t i8 __attribute__((vector_size(32)));
typedef uint32_t u8 __attribute__((vector_size(32)));

INLINE v8 load(const float *p) {
    v8 a;
    memcpy(&a, p, sizeof a);
    return a;
}

INLINE void store(float *p, v8 a) { memcpy(p, &a, sizeof a); }

INLINE v8 set(float a) { return (v8){a, a, a, a, a, a, a, a}; }

#ifdef HAS_AVX2

INLINE v8 fma8(v8 a, v8 b, v8 c) { return (v8)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
INLINE v8 max8(v8 a, v8 b) { return (v8)_mm256_max_ps((__m256)a, (__m256)b); } /* b where either is NaN */
INLINE v8 min8(v8 a, v8 b) { return (v8)_mm256_min_ps((__m256)a, (__m256)b); }
INLINE v8 load_half(const uint16_t *p) { return (v8)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
INLINE v8 load_bfloat(const uint16_t *p) {
    return (v8)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16);
}
INLINE v8 load_int8(const int8_t *p) {
    return (v8)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
INLINE void store_half(uint16_t *p, v8 a) {
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph((__m256)a, _MM_FROUND_TO_NEAREST_INT));
}
INLINE v8 round8(v8 a) { return (v8)_mm256_round_ps((__m256)a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
INLINE i8 to_int(v8 a) { return (i8)_mm256_cvtps_epi32((__m256)a); }

#else

#ifndef __has_builtin
#define __has_builtin(name) 0
#endif

INLINE v8 fma8(v8 a, v8 b, v8 c) {
#if !defined(__FP_FAST_FMAF) && !defined(__aarch64__)
    return a * b + c;
#elif __has_builtin(__builtin_elementwise_fma)
    return __builtin_elementwise_fma(a, b, c);
#else
    UNROLL for (int i = 0; i < 8; i++) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return c;
#endif
}

INLINE v8 max8(v8 a, v8 b) {
    i8 is_greater = a > b;
    return (v8)(((i8)a & is_greater) | ((i8)b & ~is_greater));
}

INLINE v8 min8(v8 a, v8 b) {
    i8 is_less = a < b;
    return (v8)(((i8)a & is_less) | ((i8)b & ~is_less));
}

/* To the nearest, ties to even. */
INLINE uint16_t float_to_half(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t sign = (uint16_t)((bits >> 16) & 0x8000);
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u) return sign | 0x7e00;
    if (bits >= 0x477ff000u) return sign | 0x7c00;
    if (bits < 0x38800000u) { /* subnormal: let a float addition at the right exponent do the rounding */
        float magnitude;
        memcpy(&magnitude, &bits, sizeof bits);
        magnitude += 0.5f;
        memcpy(&bits, &magnitude, sizeof bits);
        return sign | (uint16_t)(bits - 0x3f000000u);
    }
    bits += 0xc8000000u + 0xfffu + ((bits >> 13) & 1);
    return sign | (uint16_t)(bits >> 13);
}

/* Exponent and mantissa shifted into place, times 2^112: subnormals come out right too. */
INLINE v8 load_half(const uint16_t *p) {
    u8 half;
    UNROLL for (int i = 0; i < 8; i++) half[i] = p[i];
    u8 bits = (half & 0x7fff) << 13, is_special = (u8)(bits >= 0x0f800000); /* infinity and NaN */
    u8 scaled = (u8)((v8)bits * set(0x1p112f));
    return (v8)(((bits | 0x7f800000) & is_special) | (scaled & ~is_special) | (half & 0x8000) << 16);
}

INLINE v8 load_bfloat(const uint16_t *p) {
    i8 bits;
    UNROLL for (int i = 0; i < 8; i++) bits[i] = (int32_t)((uint32_t)p[i] << 16);
    return (v8)bits;
}

INLINE v8 load_int8(const int8_t *p) {
    v8 a;
    UNROLL for (int i = 0; i < 8; i++) a[i] = (float)p[i];
    return a;
}

INLINE void store_half(uint16_t *p, v8 a) {
    UNROLL for (int i = 0; i < 8; i++) p[i] = float_to_half(a[i]);
}

INLINE v8 round8(v8 a) { return (a + set(0x1.8p23f)) - set(0x1.8p23f); }
INLINE i8 to_int(v8 a) { return __builtin_convertvector(a, i8); }

#endif

INLINE void store_bfloat(uint16_t *p, v8 a) { /* to the nearest, ties to even */
    u8 bits = (u8)a, rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    u8 quiet = (bits >> 16) | 0x40; /* a NaN must not carry over into infinity */
    u8 is_nan = (u8)(a != a);
    rounded = (rounded & ~is_nan) | (quiet & is_nan);
    for (int i = 0; i < 8; i++) p[i] = (uint16_t)rounded[i];
}

/* The eight lanes in one fixed order: ((0+4)+(2+6)) + ((1+5)+(3+7)). */
INLINE float sum8(v8 a) { return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7])); }

INLINE float largest8(v8 a) {
    float best = a[0];
    for (int i = 1; i < 8; i++) best = a[i] > best ? a[i] : best;
    return best;
}

/* e^x to 2e-7 for −87 ≤ x ≤ 88: 2^n times a polynomial on |r| ≤ ln 2 / 2. Below it is 0, above e^88; NaN stays NaN. */
INLINE v8 exp8(v8 x) {
    v8 inside = min8(set(88.0f), max8(set(-87.0f), x));
    v8 n = round8(inside * set(1.44269504f));
    v8 r = fma8(n, set(-0.693145752f), inside);
    r = fma8(n, set(-1.42860677e-6f), r);
    v8 p = set(1.98412698e-4f);
    p = fma8(p, r, set(1.38888889e-3f));
    p = fma8(p, r, set(8.33333333e-3f));
    p = fma8(p, r, set(4.16666667e-2f));
    p = fma8(p, r, set(1.66666667e-1f));
    p = fma8(p, r, set(0.5f));
    p = fma8(p, r * r, r) + set(1.0f);
    return (v8)(((i8)p + (to_int(n) << 23)) & ~(x < set(-87.0f)));
}

/* ---- sixteen floats: the outputs of one panel, in one register of AVX-512 or in two vectors of 8 ---- */

#if defined(HAS_AVX2) && defined(__AVX512F__)

#define HAS_AVX512 1
typedef __m512 v16;

INLINE v16 set16(float a) { return _mm512_set1_ps(a); }
INLINE v16 fma16(v16 a, v16 b, v16 c) { return _mm512_fmadd_ps(a, b, c); }
INLINE v16 load16(const float *p) { return _mm512_loadu_ps(p); }
INLINE void store16(float *p, v16 a) { _mm512_storeu_ps(p, a); }
INLINE v16 load16_half(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
INLINE v16 load16_bfloat(const uint16_t *p) {
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
INLINE v16 load16_int8(const int8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}

#else

typedef struct {
    v8 low, high;
} v16;

INLINE v16 set16(float a) { return (v16){set(a), set(a)}; }
INLINE v16 fma16(v16 a, v16 b, v16 c) { return (v16){fma8(a.low, b.low, c.low), fma8(a.high, b.high, c.high)}; }
INLINE v16 load16(const float *p) { return (v16){load(p), load(p + 8)}; }
INLINE void store16(float *p, v16 a) { store(p, a.low), store(p + 8, a.high); }
INLINE v16 load16_half(const uint16_t *p) { return (v16){load_half(p), load_half(p + 8)}; }
INLINE v16 load16_bfloat(const uint16_t *p) { return (v16){load_bfloat(p), load_bfloat(p + 8)}; }
INLINE v16 load16_int8(const int8_t *p) { return (v16){load_int8(p), load_int8(p + 8)}; }

#endif
