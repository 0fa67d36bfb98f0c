//! What packing promises: everything comes back, and a collection that changes is learned anew.

use std::sync::Arc;

use proptest::prelude::*;
use reflector_pack::{Options, Packed, Packer};

/// An object of some application; applications have little in common.
fn object(application: u32, number: u32) -> Vec<u8> {
    let mut text = String::new();
    for field in 0..40 {
        let word = application.wrapping_mul(2_654_435_761).wrapping_add(field * 40_503);
        text += &format!("\"field-{word:x}\":\"value-{:x}\",", word.wrapping_mul(31));
    }
    text += &format!("\"name\":\"app-{application}-{:x}\"", number.wrapping_mul(0x9e37_79b9));
    text.into_bytes()
}

fn learned(from: impl IntoIterator<Item = Vec<u8>>) -> Packer {
    let packer = Packer::new(Options::default());
    packer.learn(&from.into_iter().collect::<Vec<_>>());
    assert!(packer.has_learned());
    packer
}

#[test]
fn what_was_packed_comes_back_and_is_small() {
    let packer = learned((0..300).map(|i| object(i % 3, i)));
    for i in 300..400 {
        let original = object(i % 3, i);
        let packed = packer.pack(&original);
        assert!(packed.packed_len() * 10 < original.len(), "{packed:?}");
        assert_eq!((packed.len(), packed.unpack().unwrap()), (original.len(), original));
    }
}

#[test]
fn without_a_dictionary_everything_is_kept_as_it_is() {
    let packer = Packer::new(Options::default());
    packer.learn(&[b"too little".to_vec()]);
    assert!(!packer.has_learned());
    let packed = packer.pack(b"abc");
    assert!(packed.dictionary().is_none());
    assert_eq!(packed.unpack().unwrap(), b"abc");
    assert!(packer.pack(b"").is_empty());
}

#[test]
fn what_does_not_become_smaller_is_kept_as_it_is() {
    let packer = learned((0..300).map(|i| object(1, i)));
    let mut seed = 1_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        seed.to_be_bytes()[0]
    })
    .take(500)
    .collect();
    let packed = packer.pack(&noise);
    assert!(packed.dictionary().is_none());
    assert_eq!(packed.unpack().unwrap(), noise);
}

#[test]
fn a_collection_that_changes_is_learned_anew_and_old_dictionaries_stay_as_long_as_they_are_needed() {
    let packer = learned((0..300).map(|i| object(1, i)));
    let old: Vec<Packed> = (0..20_000).map(|i| packer.pack(&object(1, i))).collect();
    assert_eq!(packer.times_learned(), 1, "nothing has changed");
    let dictionary = Arc::downgrade(old[0].dictionary().unwrap());

    let mut new: Vec<Packed> = (0..3_000).map(|i| packer.pack(&object(2, i))).collect();
    assert_eq!(packer.times_learned(), 2);
    let (first, last) = (new.remove(0), new.pop().unwrap());
    assert!(last.packed_len() * 3 < first.packed_len(), "{first:?}, then {last:?}");
    // Both kinds are still packed well: the new dictionary was not made of the new ones alone.
    let again = packer.pack(&object(1, 7));
    assert!(again.packed_len() < old[7].packed_len() * 3, "{again:?} and {:?}", old[7]);

    assert_eq!(old[7].unpack().unwrap(), object(1, 7));
    drop((old, first, new));
    assert!(dictionary.upgrade().is_none(), "nothing needs the old dictionary any more");
}

#[test]
fn dictionaries_take_a_bounded_part_however_often_everything_changes() {
    let packer = learned((0..300).map(|i| object(0, i)));
    let mut kept = Vec::new();
    for application in 1..9 {
        kept.extend((0..4_000).map(|i| packer.pack(&object(application, i))));
    }
    let mut dictionaries: Vec<_> = kept.iter().filter_map(|p| p.dictionary().cloned()).collect();
    dictionaries.dedup_by(|a, b| Arc::ptr_eq(a, b));
    assert!(dictionaries.len() > 2, "it has learned several times");
    let dictionaries: usize = dictionaries.iter().map(|d| d.memory()).sum();
    let packed: usize = kept.iter().map(Packed::packed_len).sum();
    assert!(dictionaries * 4 < packed, "{dictionaries} bytes of dictionaries for {packed} packed bytes");
}

#[test]
fn a_batch_has_a_dictionary_of_its_own_where_it_is_unlike_the_one_before() {
    let packer = Packer::new(Options::default());
    let batch = |application: u32| (0..512).map(|i| object(application, i)).collect::<Vec<_>>();
    let (first, like, unlike) =
        (packer.pack_batch(&batch(1)), packer.pack_batch(&batch(1)), packer.pack_batch(&batch(2)));
    let dictionary = |packed: &[Packed]| Arc::clone(packed[0].dictionary().unwrap());
    assert!(Arc::ptr_eq(&dictionary(&first), &dictionary(&like)), "nothing would be saved");
    assert!(!Arc::ptr_eq(&dictionary(&like), &dictionary(&unlike)), "another application");
    let size = |packed: &[Packed]| packed.iter().map(Packed::packed_len).sum::<usize>();
    assert!(size(&unlike) + dictionary(&unlike).memory() < batch(2).iter().map(Vec::len).sum::<usize>() / 4);
    for (packed, application) in [(first, 1), (like, 1), (unlike, 2)] {
        for (packed, original) in packed.iter().zip(batch(application)) {
            assert_eq!(packed.unpack().unwrap(), original);
        }
    }
}

#[test]
fn a_batch_that_cannot_pay_for_a_dictionary_is_kept_as_it_is() {
    let packer = Packer::new(Options::default());
    let packed = packer
        .pack_batch(&(0..100).map(|i| format!("{{\"name\":\"{i}\"}}").into_bytes()).collect::<Vec<_>>());
    assert!(packed.iter().all(|packed| packed.dictionary().is_none()));
    assert!(!packer.has_learned() && packer.pack_batch::<&[u8]>(&[]).is_empty());
}

#[test]
fn a_rollout_in_the_order_of_the_list_learns_once() {
    let packer = Packer::new(Options::default());
    let applications = 0..40_u32;
    for application in applications.clone() {
        let _ = packer.pack_batch(&(0..512).map(|i| object(application, i)).collect::<Vec<_>>());
    }
    let before = packer.times_learned();
    let of_all: usize = applications
        .flat_map(|application| (0..512).map(move |i| object(application, i)))
        .map(|object| packer.pack(&object).packed_len())
        .sum();
    assert!(packer.times_learned() <= before + 1, "{} times after {before}", packer.times_learned());
    assert!(of_all < 40 * 512 * object(1, 1).len() / 4, "{of_all}");
}

#[test]
fn several_threads_pack_at_once() {
    let packer = learned((0..300).map(|i| object(i % 3, i)));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let packer = &packer;
            scope.spawn(move || {
                for i in 0..500 {
                    let original = object(thread, i);
                    assert_eq!(packer.pack(&original).unpack().unwrap(), original);
                }
            });
        }
    });
}

#[test]
fn debug_output_shows_no_content() {
    let packer = learned((0..300).map(|i| object(1, i)));
    let text = format!("{packer:?} {:?}", packer.pack(b"password"));
    assert!(!text.contains("password"), "{text}");
}

proptest! {
    #[test]
    fn any_bytes_come_back(items in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..20)) {
        let packer = learned((0..300).map(|i| object(1, i)));
        for item in items {
            prop_assert_eq!(packer.pack(&item).unpack().unwrap(), item);
        }
    }
}
