//! Which neighbouring segments become one. Pure: owns the rule, never a file.
//!
//! Cleaned segments shrink; without this, a log would come to consist of ever more ever smaller files.

/// A segment, as far as the decision needs it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    /// Its first offset.
    pub(super) base_offset: i64,
    /// One past its last offset.
    pub(super) end_offset: i64,
    /// Its size in bytes.
    pub(super) size_bytes: u64,
    /// The sizes in bytes of its offset index and its time index.
    pub(super) index_bytes: (u64, u64),
}

/// What a segment may not exceed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// `segment.bytes`.
    pub(super) segment_bytes: u64,
    /// `segment.index.bytes`.
    pub(super) index_bytes: u64,
}

/// How many segments each group has; in order, as many as there are members in all.
pub(super) fn group(members: &[Member], limits: Limits) -> Vec<usize> {
    let mut groups = Vec::new();
    let mut rest = members;
    while let Some((first, others)) = rest.split_first() {
        let (mut size, mut index, mut times) = (first.size_bytes, first.index_bytes.0, first.index_bytes.1);
        let mut count = 1;
        for member in others {
            size += member.size_bytes;
            index += member.index_bytes.0;
            times += member.index_bytes.1;
            let in_reach = member.end_offset - 1 - first.base_offset <= i64::from(i32::MAX);
            let fits = size <= limits.segment_bytes && index.max(times) <= limits.index_bytes;
            if !fits || !in_reach {
                break;
            }
            count += 1;
        }
        groups.push(count);
        rest = &rest[count..];
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: Limits = Limits { segment_bytes: 1000, index_bytes: 100 };

    fn members(sizes: &[(u64, u64, i64)]) -> Vec<Member> {
        let mut base_offset = 0;
        let member = |(size_bytes, index, offsets): &(u64, u64, i64)| {
            let end_offset = base_offset + offsets;
            let member =
                Member { base_offset, end_offset, size_bytes: *size_bytes, index_bytes: (*index, index / 2) };
            base_offset = end_offset;
            member
        };
        sizes.iter().map(member).collect()
    }

    #[test]
    fn neighbours_fill_a_segment_and_no_more() {
        assert_eq!(group(&members(&[(400, 1, 10), (600, 1, 10), (1, 1, 10)]), LIMITS), [2, 1]);
        assert_eq!(
            group(&members(&[(5000, 1, 10), (1, 1, 10)]), LIMITS),
            [1, 1],
            "one too large stays alone"
        );
        assert_eq!(group(&members(&[(1, 60, 10), (1, 60, 10)]), LIMITS), [1, 1], "the index");
        let far = i64::from(i32::MAX);
        assert_eq!(group(&members(&[(1, 1, 10), (1, 1, far), (1, 1, 10)]), LIMITS), [1, 1, 1], "31 bits");
        assert_eq!(group(&members(&[(0, 0, far - 10), (1, 1, 11)]), LIMITS), [2], "just in reach");
        assert_eq!(group(&[], LIMITS), Vec::<usize>::new());
    }

    proptest! {
        #[test]
        fn groups_are_all_segments_within_the_limits(
            sizes in proptest::collection::vec((0..1500u64, 0..150u64, 1..3_000_000_000i64), 0..20),
        ) {
            let members = members(&sizes);
            let groups = group(&members, LIMITS);
            prop_assert_eq!(groups.iter().sum::<usize>(), members.len());
            let mut rest = &members[..];
            for count in groups {
                let (here, behind) = rest.split_at(count);
                rest = behind;
                if count > 1 {
                    prop_assert!(here.iter().map(|member| member.size_bytes).sum::<u64>() <= LIMITS.segment_bytes);
                    prop_assert!(here[count - 1].end_offset - here[0].base_offset <= 1 << 31);
                }
            }
        }
    }
}
