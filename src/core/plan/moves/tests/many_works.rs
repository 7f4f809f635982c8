//! Moves of many works at once.

use super::*;

/// The only work of the source is left, and no budget is asked.
#[test]
fn hundred_works_merge_into_one_and_split_again() {
    let names: Vec<String> = (0..100).map(|n| format!("shop-{n:03}")).collect();
    let lists: Vec<[(&str, &str); 1]> = names.iter().map(|name| [(name.as_str(), "1")]).collect();
    let many: Vec<Work<'_>> =
        names.iter().zip(&lists).map(|(name, list)| plain(name, list)).collect();
    let all: Vec<(&str, &str)> = lists.concat();
    let mut world = World::settled(&many);
    for (works, writes, drops) in [(vec![plain("all", &all)], 101, 100), (many, 101, 1)] {
        world.commit(&works);
        assert_eq!(world.pass().len(), writes, "each work is written once");
        assert_eq!(world.pass(), [""; 0]);
        world.agent_applies_all();
        assert_eq!(world.pass().len(), drops);
        world.agent_applies_all();
        assert_eq!(world.pass(), [""; 0]);
        let mut left: Vec<String> =
            world.hub.keys().flat_map(|key| world.listed(key.work.as_str())).collect();
        left.sort();
        assert_eq!(left, names);
    }
}
