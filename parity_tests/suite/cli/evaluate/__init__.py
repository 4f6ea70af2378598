"""Problems and solutions in the forms of evaluators, right, wrong and cheating."""
