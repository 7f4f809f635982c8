//! The functions of jq that are written in jq.

use std::sync::LazyLock;

use jaq_core::load::parse::Def;

/// As in jq's manual. Functions that loop, and those that need more than jq, are in `natives`.
const SOURCE: &str = r#"
def not: if . then false else true end;
def select(f): if f then . else empty end;
def map(f): [.[] | f];
def values: select(. != null);
def nulls: select(. == null);
def booleans: select(type == "boolean");
def numbers: select(type == "number");
def strings: select(type == "string");
def arrays: select(type == "array");
def objects: select(type == "object");
def iterables: select(type == "array" or type == "object");
def scalars: select(type != "array" and type != "object");
def recurse: recurse(.[]?);
def recurse(f; condition): recurse(f | select(condition));
def add: reduce .[] as $x (null; . + $x);
def add(f): reduce f as $x (null; . + $x);
def any(f; condition): isempty(first(f | condition | select(.))) | not;
def any(condition): any(.[]; condition);
def any: any(.[]; .);
def all(f; condition): isempty(first(f | condition | select(not)));
def all(condition): all(.[]; condition);
def all: all(.[]; .);
def first: .[0];
def last: .[-1];
def nth($n): .[$n];
def nth($n; f): if $n < 0 then error("negative index") else last(limit($n + 1; f)) end;
def range($to): range(0; $to; 1);
def range($from; $to): range($from; $to; 1);
def in(object): . as $key | object | has($key);
def inside(outer): . as $inner | outer | contains($inner);
def index($text): indices($text) | .[0];
def rindex($text): indices($text) | .[-1];
def join($separator): reduce .[] as $x (null;
  (if . == null then "" else . + $separator end)
  + ($x | if . == null then "" elif type == "string" then . else tojson end)) // "";
def paths: path(..) | select(length > 0);
def paths(f): path(.. | select(f)) | select(length > 0);
def to_entries: [keys[] as $k | {key: $k, value: .[$k]}];
def from_entries: reduce .[] as $x ({}; . + {($x
  | (if .key == null then .k // .name // .Name // .K // .Key else .key end)
  | if type == "string" then . elif type == "null" then "null" else tojson end):
  ($x | if has("value") then .value elif has("v") then .v else .Value end)});
def with_entries(f): to_entries | map(f) | from_entries;
def map_values(f): if type == "array" then map(first(f)) else with_entries(.value |= first(f)) end;
def sort: sort_by(.);
def unique: unique_by(.);
def min: min_by(.);
def max: max_by(.);
def flatten: flatten(1000000);
def error($message): $message | error;
def ascii_downcase: ascii_case(false);
def ascii_upcase: ascii_case(true);
def match($re): match($re; null);
def match($re; $flags):
  if $re | type == "array" then match_all($re[0]; $re[1] // $flags)[]
  else match_all($re; $flags)[] end;
def test($re): test($re; null);
def test($re; $flags): isempty(match($re; $flags)) | not;
def captured: [.captures[] | select(.name != null) | {key: .name, value: .string}] | from_entries;
def capture($re): capture($re; null);
def capture($re; $flags): match($re; $flags) | captured;
def scan($re): scan($re; null);
def scan($re; $flags): match($re; "g" + ($flags // ""))
  | if (.captures | length) > 0 then [.captures[].string] else .string end;
def split($re; $flags): . as $in
  | reduce (match($re; "g" + ($flags // "")), null) as $m ({at: 0, parts: []};
    if $m == null then .parts += [$in[.at:]]
    else .parts += [$in[.at:$m.offset]] | .at = $m.offset + $m.length end)
  | .parts;
def splits($re): splits($re; null);
def splits($re; $flags): split($re; $flags)[];
def sub($re; f): sub($re; f; null);
def sub($re; f; $flags): . as $in
  | reduce match($re; $flags) as $m ({at: 0, done: ""};
    .done = .done + $in[.at:$m.offset] + ($m | captured | f) | .at = $m.offset + $m.length)
  | .done + $in[.at:];
def gsub($re; f): sub($re; f; "g");
def gsub($re; f; $flags): sub($re; f; "g" + ($flags // ""));
def walk(f): if type == "object" then with_entries(.value |= walk(f))
  elif type == "array" then map(walk(f)) else . end | f;
def env: {};
def combinations: if length == 0 then [] else .[0][] as $x
  | (.[1:] | combinations) as $rest | [$x] + $rest end;
def combinations($n): . as $all | [range($n) | $all] | combinations;
def IN(f): . as $x | any($x == f; .);
def IN(source; f): any(source == f; .);
def INDEX(f): INDEX(.[]; f);
def INDEX(source; f): reduce source as $x ({}; . + {($x | f | tostring): $x});
def toarray: if type == "array" then . else [.] end;
def trimstr($text): ltrimstr($text) | rtrimstr($text);
def ascii: [.] | implode;
def leaf_paths: paths(scalars);
def finites: select(isinfinite or isnan | not);
def normals: select(isnormal);
def todateiso8601: strftime("%Y-%m-%dT%H:%M:%SZ");
def fromdateiso8601: strptime("%Y-%m-%dT%H:%M:%S%z") | mktime;
def todate: todateiso8601;
def fromdate: fromdateiso8601;
"#;

static PRELUDE: LazyLock<Vec<Def<&'static str>>> =
    LazyLock::new(|| jaq_core::load::parse(SOURCE, |parser| parser.defs()).unwrap_or_default());

/// A function by its name and number of arguments.
pub fn prelude(name: &str, arguments: usize) -> Option<&'static Def<&'static str>> {
    PRELUDE.iter().find(|function| function.name == name && function.args.len() == arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_parses() {
        assert_eq!(PRELUDE.len(), SOURCE.matches("def ").count());
    }
}
