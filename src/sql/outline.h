// The outline of a text: the text byte for byte, but with its values and what its comments say taken out. It costs a fraction
// of the shape, because letters are not looked at one by one and nothing but the places of values must be known; and texts of
// one outline have one shape, so a class that is known by outline needs no shape. What a program sends again and again differs
// in its values alone and so shares an outline. Texts that are spelled differently, in case or white space, share only a shape.
//
//   SELECT a FROM t WHERE b = 'x' AND c > 10 /* web 7 */     is written down as
//   SELECT a FROM t WHERE b = '0 AND c > 0 /*0               with the byte 0 where 0 stands here
//
// No two texts that are cut into tokens differently have one outline. A number is the byte 0, a string is ' and the byte 0, a
// comment is / * and the byte 0, and one to the end of its line is -- alone. A text in which the byte 0 stands outside of
// values is not read; so no text looks like what was put in. What else is in an outline is as the text has it, with all
// by which PostgreSQL tells where a value, a quoted name or a comment begins and ends.
#pragma once

#include <optional>
#include <vector>

#include "base/bytes.h"
#include "sql/shape.h"

namespace pgweir::sql {

/// A keyed hash of the outline of `text`, read with standard_conforming_strings on and in an encoding in which ASCII bytes are
/// ASCII. Nothing when that is left to the scanner: for strings with a prefix or between dollars, hints, and broken texts.
/// `scratch` is the caller's to keep.
std::optional<Shape> outline_of(Bytes text, ShapeKey key, std::vector<char>& scratch);

/// The outline itself, which lies in `scratch`: for tests.
std::optional<Bytes> write_outline(Bytes text, std::vector<char>& scratch);
/// The same without instructions of this machine's own.
std::optional<Bytes> write_outline_portably(Bytes text, std::vector<char>& scratch);

}  // namespace pgweir::sql
