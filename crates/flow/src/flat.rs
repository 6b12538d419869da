//! Lists of lists, as a statement takes them: one after the other, and where each ends.

/// The ends, and all.
pub(crate) fn flat<T: Clone>(lists: impl Iterator<Item = impl AsRef<[T]>>) -> (Vec<i32>, Vec<T>) {
    let (mut lasts, mut all) = (Vec::new(), Vec::new());
    for list in lists {
        all.extend_from_slice(list.as_ref());
        lasts.push(all.len() as i32);
    }
    (lasts, all)
}
