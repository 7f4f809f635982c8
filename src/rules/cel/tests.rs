use serde_json::json;

use super::*;
use crate::cel::check::FUNCTIONS;

fn evaluator() -> CelEvaluator {
    CelEvaluator::new(&json!({"spec": {"replicas": 3, "size": "2Gi", "version": "v1.20"},
        "status": {"replicas": 3, "conditions": [{"type": "Ready", "status": "True"}]},
        "items": (0..300).collect::<Vec<_>>(), "big": "x".repeat(100_000)}))
}

fn holds(table: &[&str]) {
    let evaluator = evaluator();
    for expression in table {
        assert_eq!(evaluator.test(expression), Ok(true), "{expression}");
    }
}

fn fails(table: &[(&str, &str)]) {
    let evaluator = evaluator();
    for (expression, expected) in table {
        let error = evaluator.test(expression).unwrap_err().to_string();
        assert!(error.contains(expected), "{expression}: {error}");
    }
}

#[test]
fn the_language() {
    holds(&[
        "object.status.replicas == object.spec.replicas && object.spec.replicas > 1",
        "object.status.replicas == 3.0 && object.status.replicas + 1 == 4",
        "!has(object.status.missing) && object.?status.?missing.orValue(0) == 0",
        "hasConditions(object.status) && !hasConditions(object.spec) && !hasConditions(1)",
        "object.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')",
        "!object.status.conditions.all(c, c.type == 'Other')",
        "object.status.conditions.filter(c, c.status == 'True').size() == 1",
        "object.status.conditions.exists_one(c, c.status == 'True')",
        "object.items.map(i, i * 2)[299] == 598 && object.items.map(i, i > 297, i) == [298, 299]",
        "type(object.spec.replicas) == int && 'Ready'.lowerAscii() == 'ready'",
        "object.?spec.?replicas.optMap(r, r + 1).orValue(0) == 4",
        "object.spec == object.spec && object.spec != object.status && 3 in object.items",
        "{'a': [1, {'b': 2}]}.a[1].b == 2 && [?optional.none(), 1] == [1]",
        "[optional.of(1), optional.none()].unwrapOpt() == optional.unwrap([optional.of(1)])",
        "[1, 2].first().value() == 1 && [1, 2].last().value() == 2 && !([].first().hasValue())",
        "object.items.all(a, object.items.exists(b, a == b))",
    ]);
    fails(&[
        ("object.missing == 1", "no such key: missing"),
        ("1 / 0 == 1", "division by zero"),
        ("'text'", "expected bool result, got string"),
        ("object.items", "expected bool result, got list"),
        ("quantity('1')", "expected bool result, got kubernetes.Quantity"),
        ("1 +", "ERROR: <input>"),
        ("badcel", "badcel"),
        ("result", "result"),
        ("math.abs(1) == 1", "math"),
        ("[3, 1].sort() == [1, 3]", "there is no function sort()"),
    ]);
}

#[test]
fn texts_and_lists() {
    holds(&[
        "object.items.isSorted() && ![2, 1].isSorted() && [].isSorted()",
        "object.items.sum() == 44850 && [1.5, 2.0].sum() == 3.5 && [].sum() == 0",
        "object.items.min() == 0 && object.items.max() == 299",
        "['b', 'a', 'b'].min() == 'a' && ['b', 'a', 'b'].max() == 'b'",
        "[1, 2, 2].indexOf(2) == 1 && [1, 2, 2].lastIndexOf(2) == 2",
        "[1].indexOf(3) == -1 && 'abcb'.indexOf('b') == 1 && 'abcb'.lastIndexOf('b') == 3",
        "['a', 'b'].join() == 'ab' && ['a', 'b'].join(', ') == 'a, b' && [].join('x') == ''",
        "'aXbX'.replace('X', '--') == 'a--b--' && 'aXbX'.replace('X', '', 1) == 'abX'",
        "'ab'.replace('', '-') == '-a-b-' && 'aa'.replace('a', 'b', -1) == 'bb'",
        "'a-b'.split('-') == ['a', 'b'] && '%s=%d'.format(['a', 1]) == 'a=1'",
        "strings.quote('a') == '\"a\"' && 'abc'.reverse() == 'cba' && ' a '.trim() == 'a'",
    ]);
    fails(&[
        ("[].min() == 0", "the function min failed"),
        ("['a'].sum() == 'a'", "the function sum failed"),
        ("[1, 'a'].isSorted()", "values"),
        ("[1].join('') == ''", "the function join failed"),
        ("'a'.replace(1, 'b') == 'a'", "for 'replace' applied to '(string, int, string)'"),
    ]);
}

#[test]
fn regular_expressions() {
    holds(&[
        "'abc 123'.matches('[0-9]+') && !matches('abc', '^b')",
        "'abc 123 45'.find('[0-9]+') == '123' && 'abc'.find('[0-9]') == ''",
        "'abc 123 45'.findAll('[0-9]+') == ['123', '45'] && 'abc'.findAll('[0-9]') == []",
        "'1 2 3'.findAll('[0-9]', 2) == ['1', '2'] && '1 2'.findAll('[0-9]', -1) == ['1', '2']",
    ]);
    fails(&[
        ("'a'.matches('(')", "the function matches failed"),
        ("'a'.find('x{1000}{1000}') == ''", "the function find failed"),
        ("'a'.find(1) == ''", "for 'find' applied to '(string, int)'"),
    ]);
}

#[test]
fn quantities() {
    holds(&[
        "quantity(object.spec.size).isGreaterThan(quantity('1Mi'))",
        "quantity('200M').compareTo(quantity('0.2G')) == 0 && quantity('50k') == quantity('50000')",
        "quantity('50M').isLessThan(quantity('100M')) && quantity('1').compareTo(quantity('2')) \
         == -1",
        "isQuantity('1.3G') && !isQuantity('1,3G') && !isQuantity('1.3H') && !isQuantity('')",
        "quantity('1').add(quantity('1')).sub(quantity('500m')) == quantity('1500m')",
        "quantity('1').add(2).asInteger() == 3 && quantity('1').sub(2).sign() == -1",
        "quantity('1Ki').isInteger() && !quantity('50m').isInteger()",
        "quantity('50m').asApproximateFloat() == 0.05 && quantity('0').sign() == 0",
        "quantity('9999999999999999999999').isInteger() && !quantity('100E').isInteger()",
    ]);
    fails(&[
        ("quantity('10 Mi') == quantity('1')", "the function quantity failed"),
        ("quantity('50m').asInteger() == 0", "the function asInteger failed"),
        ("quantity(1) == quantity('1')", "no such overload"),
    ]);
}

#[test]
fn urls() {
    holds(&[
        "url('https://example.com:80/a').getHost() == 'example.com:80'",
        "url('HTTPS://user:pw@example.com:80/').getScheme() == 'https'",
        "url('https://[::1]:80/').getHostname() == '::1' && url('https://[::1]/').getPort() == ''",
        "url('https://example.com:80/').getPort() == '80' && url('/path').getHost() == ''",
        "url('https://example.com/path with spaces/').getEscapedPath() == '/path%20with%20spaces/'",
        "url('https://example.com/a%2Fb?x').getEscapedPath() == '/a%2Fb'",
        "url('https://e.com/?k=a&k=b+c&x=%41').getQuery() == {'k': ['a', 'b c'], 'x': ['A']}",
        "url('https://e.com').getQuery() == {} && url('https://e.com').getEscapedPath() == ''",
        "isURL('https://user:pass@example.com:80/') && isURL('/absolute') && isURL('mailto:a')",
        "!isURL('../relative') && !isURL('https://a:b:c/') && !isURL('') && !isURL(':a')",
        "!isURL('https://a b/') && !isURL('https://a/%zz') && !isURL('1a:b') && !isURL('a')",
        "url('https://a/') == url('https://a/') && url('https://a/') != url('https://b/')",
    ]);
    fails(&[("url('x').getHost() == ''", "the function url failed")]);
}

#[test]
fn addresses() {
    holds(&[
        "ip('127.0.0.1').isLoopback() && ip('::1').isLoopback() && ip('::1').family() == 6",
        "isIP('10.0.0.1') && !isIP('10.0.0.01') && !isIP('10.0.0.1/8') && !isIP('::ffff:1.2.3.4')",
        "!isIP('fe80::1%eth0') && ip('10.0.0.1') == ip('10.0.0.1') && ip('10.0.0.1').family() == 4",
        "ip.isCanonical('2001:db8::abcd') && !ip.isCanonical('2001:DB8::ABCD')",
        "ip('0.0.0.0').isUnspecified() && ip('224.0.0.1').isLinkLocalMulticast()",
        "ip('169.254.0.1').isLinkLocalUnicast() && ip('fe80::1').isLinkLocalUnicast()",
        "ip('ff02::1').isLinkLocalMulticast() && ip('10.0.0.1').isGlobalUnicast()",
        "!ip('255.255.255.255').isGlobalUnicast() && !ip('ff05::1').isGlobalUnicast()",
        "string(ip('2001:DB8::1')) == '2001:db8::1' && type(ip('::1')) == type(ip('::2'))",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && \
         !cidr('10.0.0.0/8').containsIP(ip('11.0.0.1'))",
        "cidr('10.0.0.0/8').containsCIDR(cidr('10.1.0.0/16')) && \
         cidr('0.0.0.0/0').containsIP('1.2.3.4')",
        "!cidr('10.1.0.0/16').containsCIDR('10.0.0.0/8') && !cidr('::/0').containsIP('1.2.3.4')",
        "cidr('192.168.1.5/24').masked() == cidr('192.168.1.0/24') && \
         cidr('::1/128').prefixLength() == 128",
        "cidr('192.168.1.5/24').ip() == ip('192.168.1.5') && string(cidr('10.0.0.0/8')) == \
         '10.0.0.0/8'",
        "isCIDR('::/0') && !isCIDR('10.0.0.0/33') && !isCIDR('10.0.0.0') && !isCIDR('10.0.0.0/+8')",
    ]);
    fails(&[
        ("ip('x').isLoopback()", "the function ip failed"),
        ("cidr('10.0.0.0/8').containsIP('x')", "the function ip failed"),
        ("ip.isCanonical('x')", "the function ip failed"),
    ]);
}

#[test]
fn versions() {
    holds(&[
        "semver('1.2.3').major() == 1 && semver('1.2.3').minor() == 2 && \
         semver('1.2.3').patch() == 3",
        "semver('1.2.3-rc.1').isLessThan(semver('1.2.3')) && \
         semver('1.10.0').isGreaterThan(semver('1.9.0'))",
        "semver('1.0.0+a') == semver('1.0.0+b') && semver('1.0.0').compareTo(semver('2.0.0')) \
         == -1",
        "isSemver('1.0.0') && !isSemver('v1.0') && !isSemver('1.0') && !isSemver('01.0.0')",
        "isSemver('v1.0', true) && semver(object.spec.version, true) == semver('1.20.0')",
        "semver('01.02.03-beta', true) == semver('1.2.3-beta') && !isSemver('v', true)",
    ]);
    fails(&[("semver('1').major() == 1", "the function semver failed")]);
}

#[test]
fn formats() {
    let valid = |format: &str, text: &str, is_valid: bool| {
        let expression = format!("format.{format}().validate('{text}').hasValue()");
        assert_eq!(evaluator().test(&expression), Ok(!is_valid), "{expression}");
        let expression = format!("format.named('{format}').value().validate('{text}').hasValue()");
        assert_eq!(evaluator().test(&expression), Ok(!is_valid), "{expression}");
    };
    for (format, right, wrong) in [
        ("dns1123Label", "1-a", "-a"),
        ("dns1123Subdomain", "a.b-c", "a..b"),
        ("dns1035Label", "a-1", "1-a"),
        ("qualifiedName", "example.com/Name_1", "a/b/c"),
        ("dns1123LabelPrefix", "a-", "-"),
        ("dns1123SubdomainPrefix", "a.b-", "-.a"),
        ("dns1035LabelPrefix", "a-", "1-"),
        ("labelValue", "", "a b"),
        ("uri", "https://a/", "a b"),
        ("uuid", "123E4567-e89b-12d3-a456-426614174000", "123e4567"),
        ("byte", "YWJj", "YWJ"),
        ("date", "2024-02-29", "2023-02-29"),
        ("datetime", "2024-02-29T10:00:00.5+01:00", "2024-02-29T25:00:00Z"),
    ] {
        valid(format, right, true);
        valid(format, wrong, false);
    }
    holds(&[
        "format.dns1123Label().validate('A').value().size() == 1",
        "!format.named('other').hasValue() && format.uuid() == format.named('uuid').value()",
    ]);
}

/// What [`check`] lets through is there: a name that nothing declares fails in another way than a
/// wrong argument.
#[test]
fn every_function_that_the_check_knows_is_there() {
    let evaluator = evaluator();
    for name in FUNCTIONS {
        let calls = [
            format!("{name}()"),
            format!("object.{name}()"),
            format!("format.{name}()"),
            format!("ip.{name}()"),
            format!("optional.{name}()"),
            format!("strings.{name}()"),
        ];
        let is_there = calls.iter().any(|call| match evaluator.test(call) {
            Err(CelEvaluationError::Run(problem)) => !problem.starts_with("undeclared reference"),
            _ => true,
        });
        assert!(is_there, "{name}");
    }
}

#[test]
fn loops_end() {
    let evaluator = evaluator();
    let nested = "object.items.all(a, object.items.all(b, object.items.all(c, a + b + c >= 0)))";
    assert_eq!(evaluator.test(nested), Err(CelEvaluationError::Budget));
    assert_eq!(evaluator.test("object.items.map(a, a).size() == 300"), Ok(true));
    for _ in 0..12 {
        let _spent = evaluator.test(nested);
    }
    assert_eq!(
        evaluator.test("object.items.all(a, a >= 0)"),
        Err(CelEvaluationError::Budget),
        "the rules share a budget"
    );
    assert_eq!(evaluator.test("object.spec.replicas == 3"), Ok(true));
}

#[test]
fn what_an_expression_makes_is_bounded() {
    let repeated =
        |what: &str, step: &str, times: usize| format!("{what}{}.size() > 0", step.repeat(times));
    for expression in [
        repeated("[object.big]", ".map(a, a + a)", 9),
        repeated("[[object.big]]", ".map(a, a + a)", 9),
        repeated("['x']", ".map(a, [a, a, a, a, a, a, a, a])", 9),
        repeated("[object.big]", ".map(a, {'a': a, 'b': a, 'c': a, 'd': a})", 6),
        "object.big.replace('x', object.big).size() > 0".into(),
        "object.items.map(i, object.big).join(object.big).size() > 0".into(),
        "object.items.map(i, object.items.map(j, object.big)).size() > 0".into(),
        "object.items.all(i, object.items.all(j, !object.big.matches('y$')))".into(),
        "object.items.all(i, object.items.all(j, object.big == object.big))".into(),
        "object.items.all(i, object.items.all(j, object.big.findAll('x') == []|| true))".into(),
        "object.items.all(i, object.items.all(j, !('x'.matches(string(i) + ' ' + string(j)))))"
            .into(),
        "object.items.all(i, object.items.all(j, '%s'.format([object.big]) != ''))".into(),
    ] {
        assert_eq!(evaluator().test(&expression), Err(CelEvaluationError::Budget), "{expression}");
    }
    assert_eq!(evaluator().test("object.items.map(i, object.big).size() == 300"), Ok(true));
    assert_eq!(evaluator().test("object.items.all(i, 'a-1'.matches('^[a-z]-[0-9]$'))"), Ok(true));
}

#[test]
fn deep_trees_are_refused_before_they_run() {
    for expression in [
        format!("1{} > 0", " + 1".repeat(CEL_TREE_DEPTH_MAX)),
        format!("[1]{}.size() > 0", ".map(a, a)".repeat(CEL_TREE_DEPTH_MAX)),
        format!("object{} == 1", ".a".repeat(CEL_TREE_DEPTH_MAX)),
    ] {
        let error = evaluator().test(&expression).unwrap_err().to_string();
        assert!(error.contains("nest deeper"), "{error}");
    }
}

#[test]
fn trees_as_deep_as_may_be_need_half_a_stack() {
    let evaluate_all = || {
        for (first, step, last) in [
            ("[1]", ".map(a, a)", ".size() > 0"),
            ("[1]", ".filter(a, true)", ".size() > 0"),
            ("1", " + 1", " > 0"),
            ("'a'", " + 'a'", " != ''"),
            ("'a'", ".replace('b', 'c')", " == 'a'"),
            ("[1]", ".map(a, [a].map(b, b))", ".size() > 0"),
        ] {
            let test =
                |count: usize| evaluator().test(&format!("{first}{}{last}", step.repeat(count)));
            let counts: Vec<usize> = (1..=CEL_TREE_DEPTH_MAX).collect();
            let accepted = counts.partition_point(|count| test(*count).is_ok());
            assert!((8..CEL_TREE_DEPTH_MAX).contains(&accepted), "{step}: {accepted}");
            assert_eq!(test(accepted), Ok(true), "{step}");
            let error = test(accepted + 1).unwrap_err().to_string();
            assert!(error.contains("nest deeper"), "{step} {accepted}: {error}");
        }
    };
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(1 << 20);
        builder.spawn_scoped(scope, evaluate_all).unwrap();
    });
}

#[test]
fn messages() {
    let evaluator = evaluator();
    assert_eq!(evaluator.message("result ? 'yes' : 'no'", true), Ok("yes".into()));
    let error = evaluator.message("1", true).unwrap_err().to_string();
    assert_eq!(error, "expected message expression to have a string result, got int");
}
