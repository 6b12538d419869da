//! `reveille doctor`: broken set-ups, each with the explanation and the fix a newcomer needs.
